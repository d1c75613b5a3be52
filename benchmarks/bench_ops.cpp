// Measures each op with its default config.
//
//   build/bin/bench_ops [--benchmark_filter=softmax]
#include "samples/support.h"

#include <benchmark/benchmark.h>
#include <kiln/ops/detail/kernels.h>

using namespace kiln;

namespace {

template <class F> void measure(benchmark::State& state, samples::Work work, F&& launch) {
  Stream stream;
  launch(stream);
  stream.synchronize();
  for (auto _ : state) {
    launch(stream);
    stream.synchronize();
  }
  auto iterations = static_cast<double>(state.iterations());
  using benchmark::Counter;
  if (work.bytes > 0) state.counters["GB/s"] = Counter(work.bytes * iterations * 1e-9, Counter::kIsRate);
  if (work.flops > 0) state.counters["GFLOP/s"] = Counter(work.flops * iterations * 1e-9, Counter::kIsRate);
}

void softmax(benchmark::State& state) {
  std::int64_t rows = state.range(0), cols = state.range(1);
  auto x = samples::random({rows, cols}), y = samples::poisoned({rows, cols});
  measure(state, {.bytes = 8.0 * static_cast<double>(x.size())}, [&](Stream& s) { ops::softmax(s, x, y); });
}
BENCHMARK(softmax)
    ->Args({4096, 4096})
    ->Args({4096, 4099})
    ->Args({65536, 64})
    ->Args({128, 128256})
    ->UseRealTime();

void layernorm(benchmark::State& state) {
  std::int64_t rows = state.range(0), cols = state.range(1);
  auto x = samples::random({rows, cols}), y = samples::poisoned({rows, cols});
  auto gamma = samples::random({cols}), beta = samples::random({cols});
  measure(state, {.bytes = 8.0 * static_cast<double>(x.size())},
          [&](Stream& s) { ops::layernorm(s, x, gamma, beta, y); });
}
BENCHMARK(layernorm)->Args({4096, 4096})->Args({512, 40000})->UseRealTime();

void rmsnorm(benchmark::State& state) {
  std::int64_t rows = state.range(0), cols = state.range(1);
  auto x = samples::random({rows, cols}), y = samples::poisoned({rows, cols});
  auto gamma = samples::random({cols});
  measure(state, {.bytes = 8.0 * static_cast<double>(x.size())},
          [&](Stream& s) { ops::rmsnorm(s, x, gamma, y); });
}
BENCHMARK(rmsnorm)->Args({4096, 4096})->UseRealTime();

void silu_mul(benchmark::State& state) {
  std::int64_t rows = state.range(0), cols = state.range(1);
  auto gate = samples::random({rows, cols}), up = samples::random({rows, cols}),
       y = samples::poisoned({rows, cols});
  measure(state, {.bytes = 12.0 * static_cast<double>(y.size())},
          [&](Stream& s) { ops::activation_mul(s, gate, up, y); });
}
BENCHMARK(silu_mul)->Args({512, 14336})->UseRealTime();

void matmul(benchmark::State& state) {
  std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  auto a = samples::random({m, k}), b = samples::random({k, n}), c = samples::poisoned({m, n});
  double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  measure(state, {.flops = flops}, [&](Stream& s) { ops::matmul(s, a, b, c); });
}
BENCHMARK(matmul)
    ->Args({64, 64, 64})
    ->Args({256, 256, 256})
    ->Args({1000, 1000, 1000})
    ->Args({2048, 2048, 2048})
    ->Args({1, 4096, 4096})
    ->Args({16, 4096, 4096})
    ->UseRealTime();

// Compares tile sizes. The choices of matmul_config are based on this.
void matmul_tiles(benchmark::State& state) {
  auto a = samples::random({2048, 2048}), b = samples::random({2048, 2048}),
       c = samples::poisoned({2048, 2048});
  Config config =
      Config::parse("BM=" + std::to_string(state.range(0)) + ",BN=" + std::to_string(state.range(1)) +
                    ",BK=" + std::to_string(state.range(2)));
  measure(state, {.flops = 2.0 * 2048 * 2048 * 2048}, [&](Stream& s) {
    ops::detail::matmul_kernel.launch(s, config, {}, {ops::Input(a), ops::Input(b), ops::Output(c)});
  });
}
BENCHMARK(matmul_tiles)
    ->ArgsProduct({{64, 128, 256, 512}, {64, 128, 256, 512}, {512}})
    ->Args({512, 256, 256})
    ->Args({512, 256, 1024})
    ->Args({512, 256, 128})
    ->UseRealTime();

} // namespace

BENCHMARK_MAIN();
