// Kiln's ops beside the peers and the limits of this machine, interleaved in one process: A B A B ...,
// medians.
//
//   build/bin/bench_peers [--json FILE] [--only NAME] [--rounds N]
//
// `ratio` is the peer's time divided by Kiln's: 1 is as fast, more is faster. For what is limited by memory
// the peer is the best of several copy loops that move the same number of bytes.
#include "openblas.h"
#include "report.h"
#include "samples/machine_limits.h"
#include "samples/support.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <kiln/ops/dims.h>

#include <functional>
#include <thread>

using namespace kiln;
using benchmarks::median;
using benchmarks::Row;

namespace {

struct Contender {
  std::string name;
  std::function<void()> run;
};

// The median seconds of each, in turns. A pause lets the threads of the one before go to sleep; then the
// contender runs for a while untimed, which wakes its own and brings the cores back to the clock that they
// have in a running program.
std::vector<double> race(const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      using Clock = std::chrono::steady_clock;
      auto warm = Clock::now() + std::chrono::milliseconds(20);
      do
        contenders[i].run();
      while (Clock::now() < warm);
      auto begin = Clock::now();
      contenders[i].run();
      times[i].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  std::vector<double> medians;
  for (auto& t : times)
    medians.push_back(median(t));
  return medians;
}

struct Benchmark {
  int rounds = 9;
  int threads = Device::cpu().properties().num_threads;
  samples::MachineLimits limits;
  Stream stream;
  std::vector<Row> rows;

  // Races `run` against copy loops between arrays of as many elements, shared by the same threads.
  void against_copy(const std::string& name, std::int64_t elements, const std::function<void()>& run) {
    using namespace samples::limits;
    auto from = samples::random({elements}), to = samples::poisoned({elements});
    auto copy = [&](Copy function) { return [&, function] { copy_all(function, to, from); }; };
    std::vector<Contender> all = {{"Kiln", run}, {"copy", copy(copy_plain)}, {"memcpy", copy(copy_memcpy)}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx")) all.push_back({"streaming copy", copy(copy_streaming)});
    if (__builtin_cpu_supports("avx512f")) all.push_back({"wide streaming copy", copy(copy_streaming_wide)});
#endif
    auto seconds = race(all, rounds);
    auto best =
        static_cast<std::size_t>(std::min_element(seconds.begin() + 1, seconds.end()) - seconds.begin());
    double bytes = 2.0 * 4 * static_cast<double>(elements);
    rows.push_back({name, all[best].name, seconds[0], seconds[best], bytes / seconds[0] * 1e-9, "GB/s",
                    seconds[best] / seconds[0]});
  }

  void assign_expression() {
    auto x = samples::random({8192, 8192}), out = samples::poisoned({8192, 8192});
    against_copy("assign of 5 operations, 64 Mi floats", x.size(), [&] {
      assign(stream, out, relu(x * 1.5f + 0.25f) * 0.5f - 1.0f);
      stream.synchronize();
    });
  }
  void softmax() {
    auto x = samples::random({4096, 4096}), out = samples::poisoned({4096, 4096});
    against_copy("softmax 4096 x 4096", x.size(), [&] {
      ops::softmax(stream, x, out);
      stream.synchronize();
    });
  }
  void layernorm() {
    auto x = samples::random({4096, 4096}), out = samples::poisoned({4096, 4096});
    auto gamma = samples::random({4096}), beta = samples::random({4096});
    against_copy("layernorm 4096 x 4096", x.size(), [&] {
      ops::layernorm(stream, x, gamma, beta, out);
      stream.synchronize();
    });
  }

  void matmul(const benchmarks::OpenBlas& blas, std::int64_t m, std::int64_t n, std::int64_t k) {
    auto a = samples::random({m, k}), b = samples::random({k, n});
    auto c = samples::poisoned({m, n}), expected = samples::poisoned({m, n});
    std::vector<Contender> all = {{"Kiln", [&] {
                                     ops::matmul(stream, a, b, c);
                                     stream.synchronize();
                                   }}};
    if (blas)
      all.push_back({fmt::format("OpenBLAS {}", blas.core_name()), [&] {
                       blas.multiply(static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a.data(),
                                     b.data(), expected.data());
                     }});
    auto seconds = race(all, rounds);
    double rate = 2.0 * static_cast<double>(m * n) * static_cast<double>(k) / seconds[0] * 1e-9;
    rows.push_back({fmt::format("matmul f32 {} x {} x {}", m, n, k), blas ? all[1].name : "", seconds[0],
                    blas ? seconds[1] : 0, rate, "GFLOP/s", rate / limits.fma_gflops});
  }

  // How long kernels take from the lambda to code that runs. A number that no kernel had before keeps them
  // out of every cache.
  template <class Make> double compile_seconds(int times, Make make) {
    std::mt19937_64 random(std::random_device{}());
    std::vector<double> all;
    for (int i = 0; i < times; ++i) {
      auto salt = static_cast<float>(random() >> 40);
      auto begin = std::chrono::steady_clock::now();
      make(salt);
      all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return median(all);
  }
  void compile_times() {
    for (std::int64_t elements = 64; elements <= (1 << 20); elements *= 4) {
      double seconds = compile_seconds(5, [&](float salt) {
        auto k = kernel("row", [salt](View<const float, 2> x, View<float, 2> y) {
          auto [row] = program_tile(x, ops::BM);
          auto col = offset(ops::BN, 0);
          Tile e = exp(x.tile(row, col).load() * salt);
          y.tile(row, col).store(e / sum(e, ops::BN, keep));
        });
        k.warm_up(Device::cpu(), {ops::BM = 8, ops::BN = elements / 8});
      });
      rows.push_back(
          {fmt::format("compile a kernel of {} tile elements", elements), "", seconds, 0, 0, "", 0});
    }
    double seconds = compile_seconds(7, [](float salt) {
      auto k = kernel("matmul", [salt](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
        auto [m, n] = program_tile(c, ops::BM, ops::BN);
        auto sum = for_range(ops::BK, a.cols(), zeros<float>(ops::BM, ops::BN), [&](auto k, auto sum) {
          return sum + dot(a.tile(m, k).load(), b.tile(k, n).load());
        });
        c.tile(m, n).store(relu(sum) + salt);
      });
      k.warm_up(Device::cpu(), {ops::BM = 256, ops::BN = 256, ops::BK = 512});
    });
    rows.push_back({"compile the matmul kernel", "", seconds, 0, 0, "", 0});
  }
};

} // namespace

int main(int argc, char** argv) {
  std::string json, only;
  Benchmark b;
  CLI::App app("Kiln's ops beside peers and the limits of this machine.");
  app.add_option("--json", json, "write the table to this file as JSON");
  app.add_option("--only", only, "assign, softmax, layernorm, matmul or compile");
  app.add_option("--rounds", b.rounds, "how often each contender runs")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  auto wanted = [&](const char* name) { return only.empty() || only == name; };

  benchmarks::OpenBlas blas(b.threads);
  b.limits = samples::measure_limits();
  std::string blas_name =
      blas ? fmt::format("{}, {} threads", blas.core_name(), blas.threads()) : "not found";
  fmt::print("{}, {} threads; copy {:.1f} GB/s, FMA peak {:.0f} GFLOP/s; OpenBLAS: {}\n",
             Device::cpu().properties().name, b.threads, b.limits.copy_gbs, b.limits.fma_gflops, blas_name);
  if (wanted("assign")) b.assign_expression();
  if (wanted("softmax")) b.softmax();
  if (wanted("layernorm")) b.layernorm();
  if (wanted("matmul"))
    for (std::int64_t n : {256, 512, 1000, 2048})
      b.matmul(blas, n, n, n);
  if (wanted("compile")) b.compile_times();
  benchmarks::print_table(b.rows);
  const auto& cpu = Device::cpu().properties();
  nlohmann::ordered_json machine = {
      {"cpu", cpu.name},       {"threads", b.threads},          {"isa", cpu.isa},
      {"openblas", blas_name}, {"copy_gbs", b.limits.copy_gbs}, {"fma_gflops", b.limits.fma_gflops}};
  if (!json.empty() && !benchmarks::write_json(json, machine, b.rows)) {
    fmt::print(stderr, "{} cannot be written\n", json);
    return 1;
  }
  return 0;
}
