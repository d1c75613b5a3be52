// Measures the limits of a device: bytes copied per second and, on the CPU, fused multiply-adds per second.
#pragma once

#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace samples {

struct MachineLimits {
  double copy_gbs = 0; // bytes read plus bytes written
  double fma_gflops = 0;
};

namespace limits {

// Runs body(thread index) on n threads at once.
template <class F> void on_threads(int n, F body) {
  std::vector<std::thread> helpers;
  for (int i = 1; i < n; ++i)
    helpers.emplace_back(body, i);
  body(0);
  for (auto& t : helpers)
    t.join();
}

// Billions of operations per second of all threads together. Each thread runs `loop`, which returns how many
// operations it did, 40 times at the same time as the others, and the best rates of the threads are added:
// other processes on this machine are more likely to disturb one thread than none.
template <class Loop> double best_gops(int threads, Loop loop) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  on_threads(threads, [&](int t) {
    for (int round = 0; round < 40; ++round) {
      auto begin = std::chrono::steady_clock::now();
      double operations = loop();
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      double& rate = rates[static_cast<std::size_t>(t)];
      rate = std::max(rate, operations / seconds * 1e-9);
    }
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

// Copies in pieces that Kiln's own threads share, like the programs of a launch. Returns the seconds.
using Copy = void (*)(float* to, const float* from, std::int64_t n);
inline double copy_all(Copy copy, kiln::Tensor<float, 1>& to, const kiln::Tensor<float, 1>& from) {
  struct Job {
    Copy copy;
    float* to;
    const float* from;
  } job{copy, to.data(), from.data()};
  constexpr std::int64_t piece = 1 << 16; // 256 KiB
  auto begin = std::chrono::steady_clock::now();
  kiln::ThreadPool::shared().parallel_for(
      from.size() / piece,
      [](void* context, std::int64_t first, std::int64_t last, int) noexcept {
        auto& job = *static_cast<Job*>(context);
        job.copy(job.to + first * piece, job.from + first * piece, (last - first) * piece);
      },
      &job);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline void copy_plain(float* to, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = from[i];
}
inline void copy_memcpy(float* to, const float* from, std::int64_t n) {
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
}
#if defined(__x86_64__)
// Copies with non-temporal stores, so that the lines of `to` are not read first. `to` is 64-byte aligned.
__attribute__((target("avx"))) inline void copy_streaming(float* to, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i + 8 <= n; i += 8)
    _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
  _mm_sfence();
}
__attribute__((target("avx512f"))) inline void copy_streaming_wide(float* to, const float* from,
                                                                   std::int64_t n) {
  for (std::int64_t i = 0; i + 16 <= n; i += 16)
    _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
  _mm_sfence();
}
#endif

// Loops of independent chains of fused multiply-adds in registers: 10 chains cover the latency of two units.
// They return the number of operations.
#if defined(__GNUC__) && defined(__x86_64__)
#define KILN_KEEP(X) asm volatile("" : "+v"(X))
#elif defined(__GNUC__) && defined(__aarch64__)
#define KILN_KEEP(X) asm volatile("" : "+w"(X))
#else
#define KILN_KEEP(X) asm volatile("" : "+m"(X))
#endif
// The variables have names of their own, because an array whose elements an asm statement uses is kept in
// memory.
#define KILN_CHAIN(ADD, X)                                                                                   \
  X = ADD(X, a, b);                                                                                          \
  KILN_KEEP(X);
#define KILN_FMA_LOOP(NAME, ATTRIBUTE, BYTES, ADD)                                                           \
  ATTRIBUTE inline double NAME(std::int64_t rounds) {                                                        \
    typedef float Vector __attribute__((vector_size(BYTES)));                                                \
    Vector x = Vector{} + 1.5f, a = Vector{} + 0.999f, b = Vector{} + 0.001f;                                \
    Vector x0 = x, x1 = x, x2 = x, x3 = x, x4 = x, x5 = x, x6 = x, x7 = x, x8 = x, x9 = x;                   \
    for (std::int64_t i = 0; i < rounds; ++i) {                                                              \
      KILN_CHAIN(ADD, x0)                                                                                    \
      KILN_CHAIN(ADD, x1)                                                                                    \
      KILN_CHAIN(ADD, x2)                                                                                    \
      KILN_CHAIN(ADD, x3)                                                                                    \
      KILN_CHAIN(ADD, x4)                                                                                    \
      KILN_CHAIN(ADD, x5)                                                                                    \
      KILN_CHAIN(ADD, x6)                                                                                    \
      KILN_CHAIN(ADD, x7)                                                                                    \
      KILN_CHAIN(ADD, x8)                                                                                    \
      KILN_CHAIN(ADD, x9)                                                                                    \
    }                                                                                                        \
    return 2.0 * 10 * (BYTES / 4) * static_cast<double>(rounds);                                             \
  }
#define KILN_MULTIPLY_ADD(X, A, B) ((X) * (A) + (B))
KILN_FMA_LOOP(fma_generic, , 16, KILN_MULTIPLY_ADD)
#if defined(__x86_64__)
KILN_FMA_LOOP(fma_avx2, __attribute__((target("avx2,fma"))), 32, _mm256_fmadd_ps)
KILN_FMA_LOOP(fma_avx512, __attribute__((target("avx512f"))), 64, _mm512_fmadd_ps)
#endif
#undef KILN_FMA_LOOP
#undef KILN_CHAIN
#undef KILN_MULTIPLY_ADD
#undef KILN_KEEP

// Measures f32 multiply-adds with the longest vectors of the CPU on `threads` threads; takes about 10 ms.
inline double measure_fma_gflops(int threads) {
  auto fma = fma_generic;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fma = fma_avx2;
  if (__builtin_cpu_supports("avx512f")) fma = fma_avx512;
#endif
  return best_gops(threads, [&] { return fma(200'000); });
}

} // namespace limits

// Measures the CPU in about a second. `bytes`, the size of each of the two arrays, should be several times
// the size of the last-level cache.
inline MachineLimits measure_limits(std::int64_t bytes = std::int64_t{192} << 20) {
  using namespace limits;
  MachineLimits best;
  int threads = std::max(1, kiln::Device::cpu().properties().num_threads);
  std::int64_t n = bytes / 4 >> 16 << 16;
  auto from = kiln::Tensor<float, 1>::zeros({n}), to = kiln::Tensor<float, 1>::zeros({n});
  std::vector<Copy> copies = {copy_plain, copy_memcpy};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) copies.push_back(copy_streaming);
  if (__builtin_cpu_supports("avx512f")) copies.push_back(copy_streaming_wide);
#endif
  for (int round = 0; round < 10; ++round)
    for (auto copy : copies)
      best.copy_gbs =
          std::max(best.copy_gbs, 2.0 * 4 * static_cast<double>(n) / copy_all(copy, to, from) * 1e-9);
  best.fma_gflops = measure_fma_gflops(threads);
  return best;
}

// Measures any device. For a GPU it measures only the driver's copy.
inline MachineLimits measure_limits(kiln::Device device) {
  if (device.is_cpu()) return measure_limits();
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  kiln::Stream stream(device);
  kiln::Buffer from(device, bytes), to(device, bytes);
  kiln::Event begin, end;
  MachineLimits best;
  for (int round = 0; round < 10; ++round) {
    begin.record(stream);
    kiln::copy(stream, to.data(), from.data(), bytes);
    end.record(stream);
    end.synchronize();
    best.copy_gbs = std::max(best.copy_gbs, 2.0 * bytes / end.elapsed_ms(begin) * 1e-6);
  }
  return best;
}

} // namespace samples
