// Tunes a kernel and launches it with the result: build/bin/08_tune_your_kernel [M K]
//
// Tunes a kernel that computes y = relu(a x). The first process searches for the best tile sizes and writes
// them to a wisdom file, which an application could ship. A second process, started with that file, measures
// and compiles nothing: the config comes from the file and the code from the kernel cache.
#include "support.h"

#include <cstring>
#include <filesystem>

#include <unistd.h>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BK);

const auto relu_gemv =
    kernel("relu_gemv", [](View<const float, 2> a, View<const float, 1> x, View<float, 1> y) {
      expects(a.cols() == x.size(), "a's columns and x's size");
      expects(a.rows() == y.size(), "a's rows and y's size");
      auto [m] = program_tile(y, BM);
      auto total = for_range(BK, a.cols(), zeros<float>(BM), [&](auto k, auto total) {
        return total + sum(a.tile(m, k).load() * x.tile(k).load(), BK);
      });
      y.tile(m).store(relu(total));
    });

// The configs from which the tuner may choose, and a seed: a config that works on every device.
tune::Space space() {
  tune::Space space;
  space.pow2(BM, 1, 64)
      .pow2(BK, 16, 4096)
      .require("a tile is at most 256 KiB", [](const tune::Choice& c) { return c[BM] * c[BK] <= 65536; })
      .seed({{"BM", 16}, {"BK", 64}});
  if (!samples::device().is_cpu()) space.oneof(num_warps, {1, 2, 4, 8});
  return space;
}

// This line makes the kernel tunable. The sizes in the key have names, for rules and reports.
const auto tuned_gemv = tuned(relu_gemv, space(), {.key = {{"M", 0, 0}, {"K", 0, 1}}});

struct Problem {
  Tensor<float, 2> a;
  Tensor<float, 1> x, y;
  Problem(std::int64_t m, std::int64_t k)
      : a(samples::random({m, k})), x(samples::random({k})), y(samples::poisoned({m})) {}

  double bytes() const { return 4 * static_cast<double>(a.size()); }

  double error() const {
    samples::Error error;
    auto host_a = samples::on_host(a);
    auto host_x = samples::on_host(x), host_y = samples::on_host(y);
    for (std::int64_t i = 0; i < host_y.size(); ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < host_x.size(); ++j)
        sum += double{host_a.data()[i * host_x.size() + j]} * host_x.data()[j];
      error.add(host_y.data()[i], std::max(sum, 0.0));
    }
    return error.relative();
  }
};

int search(Stream& stream, Problem& p, const std::string& wisdom) {
  const tune::Picked before = tuned_gemv.pick(stream, p.a, p.x, p.y);
  std::printf("before: {%s}, from %s\n", before.config.to_string().c_str(), before.source.c_str());
  // For an important kernel, a search of some minutes is worth its time. This sample should take seconds, on
  // an emulated GPU too.
  const int trials = stream.device().is_emulated() ? 3 : 16;
  const tune::Tuning tuning =
      tuned_gemv.tune(stream, {.effort = tune::quick, .trials = trials, .seconds = 30}, p.a, p.x, p.y);
  const Config best = tuning.config(); // throws if nothing could be measured
  std::printf("tuned:  {%s}, the best of %zu in %.1f s: %.1f us, the seed took %.1f us\n",
              best.to_string().c_str(), tuning.search.trials.size(), tuning.search.seconds,
              1e6 * tuning.search.best_result.seconds, 1e6 * tuning.of(*tuning.fallback)->seconds);
  tune::export_wisdom(wisdom, "relu_gemv");
  std::printf("written to %s\n", wisdom.c_str());
  tuned_gemv.launch(stream, p.a, p.x, p.y); // puts the code into the cache
  stream.synchronize();
  return samples::report("the tuned kernel", tuning.search.best_result.seconds, {.bytes = p.bytes()},
                         p.error(), 1e-5);
}

int reuse(Stream& stream, Problem& p, const char* wisdom) {
  tune::add_wisdom(wisdom);
  const tune::Picked picked = tuned_gemv.pick(stream, p.a, p.x, p.y);
  // KILN_KEEP needs every kernel to be compiled, because it keeps files that the compilation produces.
  if (!std::getenv("KILN_KEEP")) set_compile_policy(CompilePolicy::forbid);
  const double seconds = samples::median_seconds(stream, [&] { tuned_gemv.launch(stream, p.a, p.x, p.y); });
  std::printf("a second process: {%s}, from %s; %lld kernels compiled, nothing measured\n",
              picked.config.to_string().c_str(), picked.source.c_str(),
              static_cast<long long>(compile_statistics().compiled));
  return samples::report("reused", seconds, {.bytes = p.bytes()}, p.error(), 1e-5);
}

int main(int argc, char** argv) {
  const bool second = argc > 1 && std::strcmp(argv[1], "--use") == 0;
  const int first_size = second ? 3 : 1;
  Problem p(samples::number(argc, argv, first_size, 512), samples::number(argc, argv, first_size + 1, 2000));
  Stream stream(samples::device());
  if (second) return reuse(stream, p, argv[2]);

  const auto wisdom =
      (std::filesystem::temp_directory_path() / ("kiln-08-" + std::to_string(getpid()) + ".json")).string();
  int code = search(stream, p, wisdom);
  // KILN_TUNE=pinned makes it an error if the file has no config for this problem.
  const std::string again = "KILN_TUNE=pinned '" + std::string(argv[0]) + "' --use '" + wisdom + "' " +
                            std::to_string(p.y.size()) + " " + std::to_string(p.x.size());
  if (std::system(again.c_str()) != 0) code = 1;
  std::filesystem::remove(wisdom);
  return code;
}
