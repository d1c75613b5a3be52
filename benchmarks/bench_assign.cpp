// Measures whole-tensor expressions: their bandwidth compared with a copy, and the host's time for a call.
//
//   build/bin/bench_assign
//
// Large expressions alternate with a copy by memcpy and one by non-temporal stores, which both use all
// threads of the pool. The counters are medians, and `of_copy` is the bandwidth of the expression divided
// by that of the faster copy. Each element that is read or written counts once.
#include <benchmark/benchmark.h>
#include <kiln/jit/runtime/assign/assign.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#ifdef __SSE2__
#include <immintrin.h>
#endif

using namespace kiln;

namespace {

constexpr std::int64_t elements = std::int64_t{64} << 20;

Tensor<float, 1> random_tensor(std::int64_t n) {
  auto t = Tensor<float, 1>::empty({n});
  std::uint32_t state = std::random_device{}();
  for (float& x : t)
    x = static_cast<float>(state = state * 1664525u + 1013904223u) / 4e9f - 0.5f;
  return t;
}

struct Copy {
  const float* from;
  float* to;
};
void copy_plain(void* context, std::int64_t begin, std::int64_t end, int) noexcept {
  auto* c = static_cast<Copy*>(context);
  std::memcpy(c->to + begin, c->from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
}
// Uses non-temporal stores. The pieces of the loop are multiples of a cache line.
void copy_streaming(void* context, std::int64_t begin, std::int64_t end, int worker) noexcept {
#ifdef __SSE2__
  auto* c = static_cast<Copy*>(context);
  for (std::int64_t i = begin; i + 16 <= end; i += 16)
    for (int k = 0; k < 16; k += 4)
      _mm_stream_ps(c->to + i + k, _mm_loadu_ps(c->from + i + k));
  _mm_sfence();
#else
  copy_plain(context, begin, end, worker);
#endif
}

template <class F> double seconds(F&& f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Alternates `work`, which reads and writes `arrays` arrays in total, with copies of one array to another.
template <class Work>
void compare_with_copies(benchmark::State& state, const Tensor<float, 1>& x, Tensor<float, 1>& out,
                         int arrays, Work&& work) {
  std::vector<double> own, plain, streaming;
  Copy copy{x.data(), out.data()};
  auto& pool = ThreadPool::shared();
  work();
  for (auto _ : state) {
    plain.push_back(seconds([&] { pool.parallel_for(elements, copy_plain, &copy, 1 << 16); }));
    own.push_back(seconds(work));
    streaming.push_back(seconds([&] { pool.parallel_for(elements, copy_streaming, &copy, 1 << 16); }));
    state.SetIterationTime(own.back());
  }
  double bytes = elements * sizeof(float) * 1e-9;
  double copied = 2 * bytes / std::min(median(plain), median(streaming));
  state.counters["GB/s"] = arrays * bytes / median(own);
  state.counters["memcpy_GB/s"] = 2 * bytes / median(plain);
  state.counters["streaming_GB/s"] = 2 * bytes / median(streaming);
  state.counters["of_copy"] = arrays * bytes / median(own) / copied;
}

// An expression of five operations on one input.
void five_operations(benchmark::State& state) {
  Stream stream;
  auto x = random_tensor(elements);
  auto out = random_tensor(elements);
  compare_with_copies(state, x, out, 2, [&] {
    assign(stream, out, relu(x * 1.5f + 0.25f) * 0.5f - 1.0f);
    stream.synchronize();
  });
}
BENCHMARK(five_operations)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

// As many operations on a matrix, with a row vector and a residual.
void row_and_residual(benchmark::State& state) {
  Stream stream;
  auto x = random_tensor(elements);
  auto residual = random_tensor(elements);
  auto bias = random_tensor(4096);
  auto out = random_tensor(elements);
  auto matrix = [&](Tensor<float, 1>& t) { return t.view().reshape({elements / 4096, 4096}); };
  compare_with_copies(state, x, out, 3, [&] {
    assign(stream, matrix(out), relu(matrix(x) * 1.5f + bias) * 0.5f + matrix(residual));
    stream.synchronize();
  });
}
BENCHMARK(row_and_residual)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

// A warm call on an idle stream, where the calling thread computes the expression.
void warm_call(benchmark::State& state) {
  Stream stream;
  auto n = state.range(0);
  auto x = random_tensor(n);
  auto bias = random_tensor(n);
  auto out = random_tensor(n);
  for (auto _ : state)
    assign(stream, out, relu(x * 1.5f + bias) * 0.5f - 1.0f);
  stream.synchronize();
}
BENCHMARK(warm_call)->Arg(16)->Arg(256)->Arg(4096);

} // namespace

BENCHMARK_MAIN();
