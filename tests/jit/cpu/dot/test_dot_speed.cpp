// Measures the speed of emitted products against OpenBLAS.
//
// These tests are hidden: run unit_tests "[.bench]" with OPENBLAS_NUM_THREADS=1 and
// OPENBLAS_CORETYPE=SkylakeX, or the core type of the CPU.
#include "dot_harness.h"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <ctime>
#include <dlfcn.h>
#include <random>
#include <vector>

namespace {

using namespace kiln;
using cpu::DotStrides;

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Run> double median_gflops(double flops, int repeats, Run&& run) {
  std::vector<double> rates;
  run();
  for (int i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    run();
    rates.push_back(flops / (thread_seconds() - start) * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

struct Tile {
  std::int64_t m, n, k;
};

// The loops of a tile kernel: for each tile of C, accumulates over steps of K into a dense buffer, and stores
// it.
void tiled_product(const test::CompiledDot& dot, Tile t, std::int64_t size, const float* a, const float* b,
                   float* c, float* accumulator, void* scratch) {
  for (std::int64_t i = 0; i < size; i += t.m)
    for (std::int64_t j = 0; j < size; j += t.n) {
      const std::int64_t m = std::min(t.m, size - i), n = std::min(t.n, size - j);
      for (std::int64_t p = 0; p < size; p += t.k)
        dot.run(a + i * size + p, size, 1, b + p * size + j, size, 1, accumulator, t.n, m, n,
                std::min(t.k, size - p), p > 0, scratch, nullptr, 0);
      for (std::int64_t r = 0; r < m; ++r)
        std::copy_n(accumulator + r * t.n, n, c + (i + r) * size + j);
    }
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                       float*, int);

Sgemm openblas_sgemm() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  return library ? reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm")) : nullptr;
}

} // namespace

TEST_CASE("speed of tiled f32 products on one thread", "[.bench]") {
  const Sgemm sgemm = openblas_sgemm();
  const DotStrides inner = DotStrides::UnitInner;
  for (const int size : {256, 512, 1000, 1024, 2048}) {
    const auto elements = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> a(elements), b(elements), c(elements);
    for (float& x : a)
      x = uniform(random);
    for (float& x : b)
      x = uniform(random);
    const double flops = 2.0 * size * static_cast<double>(elements);
    const int repeats = size >= 1024 ? 5 : 15;
    const auto blas = [&] {
      sgemm(101, 111, 111, size, size, size, 1, a.data(), size, b.data(), size, 0, c.data(), size);
    };
    const double reference = sgemm ? median_gflops(flops, repeats, blas) : 0;
    std::printf("%d^3: openblas %.1f GFLOP/s\n", size, reference);
    for (const Tile t : {Tile{256, 256, 256}, Tile{128, 256, 512}, Tile{512, 256, 512}, Tile{64, 64, 32}}) {
      const test::CompiledDot dot({DType::F32, DType::F32, t.m, t.n, t.k, inner, inner}, "host");
      std::vector<float> accumulator(static_cast<std::size_t>(t.m * t.n));
      std::vector<char> scratch(static_cast<std::size_t>(dot.scratch_bytes) + 64);
      void* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64);
      const double rate = median_gflops(flops, repeats, [&] {
        tiled_product(dot, t, size, a.data(), b.data(), c.data(), accumulator.data(), aligned);
      });
      std::printf("  tile %ldx%ldx%ld: %.1f GFLOP/s, %.3f of openblas\n", static_cast<long>(t.m),
                  static_cast<long>(t.n), static_cast<long>(t.k), rate, rate / reference);
    }
  }
}

TEST_CASE("speed of one 256 x 256 x 256 product of each type and stride class", "[.bench]") {
  for (const DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::F8E4M3})
    for (const DotStrides a : {DotStrides::UnitInner, DotStrides::UnitOuter, DotStrides::Any})
      for (const DotStrides b : {DotStrides::UnitInner, DotStrides::UnitOuter, DotStrides::Any}) {
        if ((a == DotStrides::Any) != (b == DotStrides::Any)) continue;
        const std::int64_t size = 256;
        std::vector<double> build, optimise, codegen;
        std::unique_ptr<test::CompiledDot> dot;
        for (int i = 0; i < 5; ++i) {
          dot = std::make_unique<test::CompiledDot>(cpu::DotShape{t, t, size, size, size, a, b}, "host");
          build.push_back(dot->build_ms), optimise.push_back(dot->optimise_ms),
              codegen.push_back(dot->codegen_ms);
        }
        for (auto* times : {&build, &optimise, &codegen})
          std::sort(times->begin(), times->end());
        std::vector<double> memory(3 * size * size, 0.0),
            scratch(static_cast<std::size_t>(dot->scratch_bytes) / 8 + 8);
        const std::int64_t ar = a == DotStrides::UnitOuter ? 1 : size,
                           ac = a == DotStrides::UnitOuter ? size : 1;
        const std::int64_t br = b == DotStrides::UnitOuter ? 1 : size,
                           bc = b == DotStrides::UnitOuter ? size : 1;
        const double rate = median_gflops(2.0 * size * size * size, 21, [&] {
          dot->run(memory.data(), ar, ac, memory.data() + size * size, br, bc,
                   memory.data() + 2 * size * size, size, size, size, size, false, scratch.data(), nullptr,
                   0);
        });
        std::printf("%-7s a%d b%d: %6.1f GFLOP/s; build %.2f + optimise %.2f + codegen %.2f = %.2f ms\n",
                    std::string(name(t)).c_str(), static_cast<int>(a), static_cast<int>(b), rate, build[2],
                    optimise[2], codegen[2], build[2] + optimise[2] + codegen[2]);
      }
}

TEST_CASE("speed of products with few rows", "[.bench]") {
  const Sgemm sgemm = openblas_sgemm();
  const int size = 2048;
  std::vector<float> a(32 * size, 0.5F), b(size * size, 0.25F), c(32 * size);
  for (const int m : {1, 2, 6, 18, 32}) {
    const double flops = 2.0 * m * size * size;
    const double reference = sgemm ? median_gflops(flops, 21,
                                                   [&] {
                                                     sgemm(101, 111, 111, m, size, size, 1, a.data(), size,
                                                           b.data(), size, 0, c.data(), size);
                                                   })
                                   : 0;
    const DotStrides inner = DotStrides::UnitInner;
    const test::CompiledDot dot({DType::F32, DType::F32, m, size, size, inner, inner}, "host");
    std::vector<float> scratch(static_cast<std::size_t>(dot.scratch_bytes) / 4);
    const double rate = median_gflops(flops, 21, [&] {
      dot.run(a.data(), size, 1, b.data(), size, 1, c.data(), size, m, size, size, false, scratch.data(),
              nullptr, 0);
    });
    std::printf("%d x %d x %d: %.1f GFLOP/s, openblas %.1f\n", m, size, size, rate, reference);
  }
}
