// Compares Kiln on a GPU with PyTorch, Triton and cuBLAS, where they are installed, and with a device copy.
//
//   build/bin/bench_gpu [--device cuda:0] [--json FILE] [--only NAME,...] [--rounds N]
//
// Contenders alternate (A B A B ...). Each measurement is the mean of ten runs between two events, and each
// result is the median of the measurements. The arrays do not fit in the caches. `ratio` is the peer's time
// divided by Kiln's: above 1 Kiln is faster. The limit of memory-bound operations is the bandwidth of the
// faster of two copies, the driver's device-to-device copy and Kiln's own, counting bytes read plus bytes
// written.
#include "cublas.h"
#include "python_peers.h"
#include "report.h"

#include <CLI/CLI.hpp>
#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/kiln.h>
#include <kiln/ops/dims.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <random>

using namespace kiln;
using benchmarks::median;
using benchmarks::Row;

namespace {

KILN_DIM(BLOCK);

struct Contender {
  std::string name;
  std::function<double()> seconds; // measures once; 0: the work is not supported
};

template <class T> const char* name_of_type() {
  return std::is_same_v<T, float> ? "f32" : std::is_same_v<T, f16> ? "f16" : "bf16";
}

struct Benchmark {
  Device device;
  int rounds;
  Stream stream{device};
  benchmarks::CuBlas blas{stream};
  benchmarks::PythonPeers python;
  double copy_rate = 0; // bytes per second
  std::vector<Row> rows;

  Benchmark(Device d, int r, const std::string& script) : device(d), rounds(r), python(script) {}

  // Uniform in [-1, 1), generated on the device.
  template <class T, int Rank> Tensor<T, Rank> random(const Extent (&extents)[Rank]) {
    static std::uint64_t seed = std::random_device{}();
    auto t = Tensor<T, Rank>::empty(device, extents);
    static const auto fill = kernel("fill_random", [](View<T, 1> out, Scalar<std::uint64_t> seed) {
      auto [i] = program_tile(out, BLOCK);
      out.tile(i).store(cast<T>(rand(seed, i + arange(BLOCK)) * 2 - 1));
    });
    fill.launch(stream, {BLOCK = 1024}, t.view().reshape({t.size()}), ++seed);
    return t;
  }

  double seconds_of(const std::function<void()>& run) {
    constexpr int runs = 10;
    for (int i = 0; i < 3; ++i)
      run();
    Event begin, end;
    begin.record(stream);
    for (int i = 0; i < runs; ++i)
      run();
    end.record(stream);
    end.synchronize();
    return end.elapsed_ms(begin) * 1e-3 / runs;
  }
  Contender queued(const std::string& name, const std::function<void()>& run) {
    return {name, [this, run] { return seconds_of(run); }};
  }

  // Returns the median seconds of each contender; 0 for those that do not support the work.
  std::vector<double> race(const std::vector<Contender>& contenders) {
    std::vector<std::vector<double>> times(contenders.size());
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < contenders.size(); ++i)
        times[i].push_back(contenders[i].seconds());
    std::vector<double> medians;
    for (auto& t : times)
      medians.push_back(median(t));
    return medians;
  }
  // Adds a row for each peer, or one row if there is no peer.
  void report(const std::string& name, const std::vector<Contender>& contenders, double work,
              const char* unit, double limit) {
    auto seconds = race(contenders);
    double rate = work / seconds[0];
    Row row{name, "", seconds[0], 0, rate * 1e-9, unit, limit > 0 ? rate / limit : 0};
    for (std::size_t i = 1; i < seconds.size(); ++i)
      if (seconds[i] > 0) {
        row.peer = contenders[i].name, row.peer_seconds = seconds[i];
        rows.push_back(row);
      }
    if (row.peer.empty()) rows.push_back(row);
    fmt::print("  {}: {}\n", name, benchmarks::time_text(seconds[0]));
    std::fflush(stdout);
  }
  void add_python(std::vector<Contender>& contenders, const std::string& request) {
    for (const auto& [peer, version] : python.versions())
      contenders.push_back({fmt::format("{} {}", peer == "torch" ? "PyTorch" : "Triton", version),
                            [this, line = peer + " " + request] { return python.seconds(line); }});
  }

  void measure_copy() {
    constexpr std::int64_t n = 1 << 28;
    auto from = random<float>({n}), to = Tensor<float, 1>::empty(device, {n});
    double bytes = 2.0 * sizeof(float) * n;
    auto seconds = race({queued("Kiln", [&] { assign(stream, to, from); }),
                         queued("driver", [&] { copy(stream, to.data(), from.data(), n * 4); })});
    copy_rate = bytes / std::min(seconds[0], seconds[1]);
    rows.push_back({"copy of 1 GiB", "driver's copy", seconds[0], seconds[1], bytes / seconds[0] * 1e-9,
                    "GB/s", bytes / seconds[0] / copy_rate});
  }
  template <class T> void vector_add() {
    constexpr std::int64_t n = 1 << 28;
    static const auto add = kernel("add", [](View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
      auto [i] = program_tile(out, BLOCK);
      out.tile(i).store(x.tile(i).load() + y.tile(i).load());
    });
    auto x = random<T>({n}), y = random<T>({n}), out = Tensor<T, 1>::empty(device, {n});
    std::vector<Contender> all = {
        queued("Kiln", [&] { add.launch(stream, {BLOCK = 4096 / sizeof(T)}, x, y, out); })};
    add_python(all, fmt::format("add {} {}", name_of_type<T>(), n));
    report(fmt::format("vector add {}, 2^28", name_of_type<T>()), all, 3.0 * sizeof(T) * n, "GB/s",
           copy_rate);
  }
  void assign_expression() {
    auto x = random<float>({16384, 16384}), out = Tensor<float, 2>::empty(device, {16384, 16384});
    report("assign of 5 operations f32, 2^28",
           {queued("Kiln", [&] { assign(stream, out, relu(x * 1.5f + 0.25f) * 0.5f - 1.0f); })},
           2.0 * 4 * static_cast<double>(x.size()), "GB/s", copy_rate);
  }
  template <class T> void softmax(std::int64_t m, std::int64_t n) {
    auto x = random<T>({m, n}), out = Tensor<T, 2>::empty(device, {m, n});
    std::vector<Contender> all = {queued("Kiln", [&] { ops::softmax(stream, x, out); })};
    add_python(all, fmt::format("softmax {} {} {}", name_of_type<T>(), m, n));
    report(fmt::format("softmax {} {} x {}", name_of_type<T>(), m, n), all,
           2.0 * sizeof(T) * static_cast<double>(m * n), "GB/s", copy_rate);
  }
  template <class T> void layernorm(std::int64_t m, std::int64_t n) {
    auto x = random<T>({m, n}), out = Tensor<T, 2>::empty(device, {m, n});
    auto gamma = random<T>({n}), beta = random<T>({n});
    std::vector<Contender> all = {queued("Kiln", [&] { ops::layernorm(stream, x, gamma, beta, out); })};
    add_python(all, fmt::format("layernorm {} {} {}", name_of_type<T>(), m, n));
    report(fmt::format("layernorm {} {} x {}", name_of_type<T>(), m, n), all,
           2.0 * sizeof(T) * static_cast<double>(m * n), "GB/s", copy_rate);
  }
  template <class T> void matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
    auto a = random<T>({m, k}), b = random<T>({k, n});
    auto c = Tensor<T, 2>::empty(device, {m, n}), other = Tensor<T, 2>::empty(device, {m, n});
    std::vector<Contender> all = {queued("Kiln", [&] { ops::matmul(stream, a, b, c); })};
    if (blas)
      all.push_back(queued(blas.name(), [&] {
        blas.multiply(static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a.data(), b.data(),
                      other.data());
      }));
    add_python(all, fmt::format("matmul {} {} {} {}", name_of_type<T>(), m, n, k));
    report(fmt::format("matmul {} {} x {} x {}", name_of_type<T>(), m, n, k), all,
           2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), "GFLOP/s", 0);
  }

  // Measures the host's time for a launch, and the device's time for a small kernel, launched and as part
  // of a graph.
  void launches() {
    static const auto one = kernel("one", [](View<float, 1> x) {
      auto [i] = program_tile(x, BLOCK);
      x.tile(i).store(x.tile(i).load() + 1);
    });
    auto x = random<float>({1024});
    Config config = {BLOCK = 1024};
    constexpr int launches = 1000;
    using Clock = std::chrono::steady_clock;
    std::vector<double> host, alone, replayed;
    one.launch(stream, config, x);
    stream.synchronize();
    cuda::GraphCapture capture(stream);
    for (int i = 0; i < launches; ++i)
      one.launch(stream, config, x);
    cuda::Graph graph = capture.end();
    for (int round = 0; round < rounds; ++round) {
      Event begin, end;
      auto from = Clock::now();
      begin.record(stream);
      for (int i = 0; i < launches; ++i)
        one.launch(stream, config, x);
      end.record(stream);
      host.push_back(std::chrono::duration<double>(Clock::now() - from).count() / launches);
      end.synchronize();
      alone.push_back(end.elapsed_ms(begin) * 1e-3 / launches);
      begin.record(stream);
      graph.launch(stream);
      end.record(stream);
      end.synchronize();
      replayed.push_back(end.elapsed_ms(begin) * 1e-3 / launches);
    }
    rows.push_back({"launch, on the host", "", median(host), 0, 0, "", 0});
    rows.push_back({"launch, on the device", "", median(alone), 0, 0, "", 0});
    rows.push_back({"launch in a graph, on the device", "", median(replayed), 0, 0, "", 0});
  }
  // Measures the time from the lambda to code on the device. Each kernel contains a new random number, so
  // that no cache contains it.
  void compile_time() {
    std::mt19937_64 generator(std::random_device{}());
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      auto salt = static_cast<float>(generator() >> 40);
      auto begin = std::chrono::steady_clock::now();
      auto k = kernel("salted", [salt](View<const float, 2> x, View<float, 2> y) {
        auto [row] = program_tile(x, ops::BM);
        auto col = offset(ops::BN, 0);
        Tile e = exp(x.tile(row, col).load() * salt);
        y.tile(row, col).store(e / sum(e, ops::BN, keep));
      });
      k.warm_up(device, {ops::BM = 1, ops::BN = 4096});
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    rows.push_back({"compile a softmax", "", median(times), 0, 0, "", 0});
  }

  void run(const std::function<bool(const char*)>& wanted) {
    if (wanted("copy")) measure_copy();
    if (wanted("add")) vector_add<float>(), vector_add<f16>();
    if (wanted("assign")) assign_expression();
    if (wanted("softmax"))
      softmax<float>(32768, 4096), softmax<float>(65536, 1000), softmax<bf16>(32768, 8192);
    if (wanted("layernorm")) layernorm<float>(32768, 4096), layernorm<bf16>(32768, 8192);
    if (wanted("matmul")) {
      matmul<float>(2048, 2048, 2048), matmul<float>(4096, 4096, 4096);
      matmul<f16>(4096, 4096, 4096), matmul<bf16>(8192, 8192, 8192), matmul<f16>(1000, 1100, 1200);
    }
    if (wanted("launch")) launches();
    if (wanted("compile")) compile_time();
  }
};

// The version of the driver's kernel module, such as "580.159.03".
std::string driver_version() {
  char text[64] = "";
  if (std::FILE* file = std::fopen("/sys/module/nvidia/version", "r")) {
    if (!std::fgets(text, sizeof text, file)) text[0] = 0;
    std::fclose(file);
  }
  std::string version = text;
  while (!version.empty() && version.back() == '\n')
    version.pop_back();
  return version;
}

std::string today() {
  std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

} // namespace

int main(int argc, char** argv) {
  std::string name = "cuda:0", json, peers = KILN_BENCHMARKS_DIR "/gpu_peers.py";
  std::vector<std::string> only;
  int rounds = 9;
  CLI::App app("Compares Kiln on a GPU with peers and with copies on the device.");
  app.add_option("--device", name, "the GPU")->capture_default_str();
  app.add_option("--json", json, "write the table to this file as JSON");
  app.add_option("--only", only,
                 "measure only these groups: copy, add, assign, softmax, layernorm, matmul, launch, compile")
      ->delimiter(',')
      ->check(
          CLI::IsMember({"copy", "add", "assign", "softmax", "layernorm", "matmul", "launch", "compile"}));
  app.add_option("--rounds", rounds, "repetitions of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--peers", peers, "the script that times PyTorch and Triton")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::string reason;
  if (Device::cuda_count(&reason) == 0) {
    fmt::print("bench_gpu: nothing to measure: {}\n", reason);
    return 77; // skipped
  }
  try {
    std::signal(SIGPIPE, SIG_IGN); // if Python dies, the comparison continues without it
    Device device = Device::parse(name);
    const auto& gpu = device.properties();
    Benchmark b(device, rounds, peers);
    fmt::print("{}, {} multiprocessors, driver for CUDA {}.{}{}\ncuBLAS: {}\n", gpu.name, gpu.multiprocessors,
               gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10,
               driver_version().empty() ? "" : " (" + driver_version() + ")", b.blas.name());
    for (const char* peer : {"torch", "triton"}) {
      auto known = b.python.versions().find(peer);
      fmt::print("{}: {}\n", peer, known == b.python.versions().end() ? "not found" : known->second);
    }
    b.run([&](const char* work) {
      return only.empty() || std::find(only.begin(), only.end(), work) != only.end();
    });
    benchmarks::print_table(b.rows);
    nlohmann::ordered_json header = {{"device", gpu.name},
                                     {"multiprocessors", gpu.multiprocessors},
                                     {"driver", driver_version()},
                                     {"cuda", gpu.cuda_version},
                                     {"date", today()},
                                     {"kiln", kiln::version()},
                                     {"cublas", b.blas.name()},
                                     {"python", b.python.versions()},
                                     {"copy_gbs", b.copy_rate * 1e-9}};
    if (!json.empty() && !benchmarks::write_json(json, header, b.rows)) {
      fmt::print(stderr, "bench_gpu: {} cannot be written\n", json);
      return 1;
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_gpu: {}\n", e.what());
    return 1;
  }
  return 0;
}
