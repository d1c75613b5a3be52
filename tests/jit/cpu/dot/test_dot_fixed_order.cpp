// Tests products whose order of sums is fixed: the bits of a row do not depend on the rows around it.
#include "dot_harness.h"
#include "dsl/guarded_memory.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace kiln;
using cpu::DotIsa;
using cpu::DotShape;
using cpu::DotStrides;
using cpu::DotTarget;
using test::CompiledDot;
using test::GuardedMemory;

namespace {

using Random = std::mt19937_64;

std::int64_t between(std::int64_t least, std::int64_t most, Random& random) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

// A random matrix in rows or in columns.
template <class T> struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  std::vector<T> data;

  Matrix(std::int64_t m, std::int64_t n, bool transposed, Random& random)
      : rows(m), columns(n), row_stride(transposed ? 1 : n + 3), column_stride(transposed ? m + 5 : 1),
        data(static_cast<std::size_t>(transposed ? (m + 5) * n : m * (n + 3))) {
    std::normal_distribution<double> normal;
    for (T& x : data)
      x = static_cast<T>(static_cast<float>(normal(random)));
  }
  const T* at(std::int64_t i, std::int64_t j) const { return &data[index(i, j)]; }
  double number(std::int64_t i, std::int64_t j) const {
    if constexpr (std::is_same_v<T, double>)
      return data[index(i, j)];
    else
      return static_cast<double>(static_cast<float>(data[index(i, j)]));
  }

private:
  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * row_stride + j * column_stride);
  }
};

struct Code {
  std::string cpu;
  std::function<void(DotTarget&)> adjust = {};
  test::Amx amx = test::Amx::Hardware;
};

// The host, two other CPUs, and AMX.
std::vector<Code> codes(Random& random) {
  std::vector<const char*> cpus = {"nehalem", "haswell", "skylake-avx512", "znver4"};
  std::shuffle(cpus.begin(), cpus.end(), random);
  std::vector<Code> all = {{"host"}};
  for (std::size_t i = 0; i < 2; ++i)
    if (test::host_runs(cpus[i])) all.push_back({cpus[i]});
  all.push_back({"host", [](DotTarget& target) { target.amx_bf16 = target.bf16_dot; }, test::Amx::Emulated});
  return all;
}

// Multiplies with routines for different numbers of rows, a part of the rows and of K at a time, and compares
// the bits. Sums of elements that are multiplied one by one are compared with std::fma too.
template <class A, class B, class C> void check(const Code& code, Random& random) {
  const bool a_transposed = random() % 3 == 0, b_transposed = random() % 2 == 0;
  const std::int64_t m = between(35, 60, random), n = between(1, 100, random),
                     k = random() % 2 ? between(1, 200, random) : between(900, 1700, random);
  const Matrix<A> a(m, k, a_transposed, random);
  const Matrix<B> b(k, n, b_transposed, random);
  const std::int64_t stride = n + 2;
  std::vector<C> start(static_cast<std::size_t>(m * stride));
  for (C& x : start)
    x = static_cast<C>(static_cast<double>(random() % 1000) / 500 - 1);
  const bool accumulate = random() % 2;
  CAPTURE(accumulate, code.cpu, name(dtype_of<A>), name(dtype_of<B>), a_transposed, b_transposed, m, n, k);

  std::vector<C> expected;
  for (const std::int64_t most_rows : {std::int64_t{300}, std::int64_t{1}, between(2, 32, random)}) {
    DotShape shape{dtype_of<A>, dtype_of<B>, most_rows, between(n, 2 * n, random), k};
    if (random() % 2)
      shape.a_strides = a_transposed ? DotStrides::UnitOuter : DotStrides::UnitInner,
      shape.b_strides = b_transposed ? DotStrides::UnitOuter : DotStrides::UnitInner;
    shape.fixed_order = true;
    const CompiledDot dot(shape, code.cpu, code.adjust, code.amx);
    const DotTarget& target = dot.target;
    GuardedMemory scratch(static_cast<std::size_t>(dot.scratch_bytes), GuardedMemory::Place::AtEnd, 1);
    const bool pairs = dtype_of<A> == DType::BF16 && dtype_of<B> == DType::BF16 && target.bf16_dot;
    if (expected.empty() && !pairs) {
      const bool fused = target.isa != DotIsa::Generic || !target.x86;
      expected = accumulate ? start : std::vector<C>(start.size());
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t p = 0; p < k; ++p)
          for (std::int64_t j = 0; j < n; ++j) {
            C& sum = expected[static_cast<std::size_t>(i * stride + j)];
            const C x = static_cast<C>(a.number(i, p)), y = static_cast<C>(b.number(p, j));
            volatile C product = x * y;
            sum = fused ? std::fma(x, y, sum) : sum + product;
          }
    }
    for (const bool all_rows : {true, false}) {
      std::vector<C> c = accumulate ? start : std::vector<C>(start.size(), NAN);
      for (std::int64_t i = 0; i < m;) {
        const std::int64_t rows = std::min(m - i, all_rows ? most_rows : between(1, most_rows, random));
        // AMX multiplies 32 elements of K at a time.
        const std::int64_t split = all_rows ? 0 : between(0, k, random) / 32 * 32;
        for (const auto& [begin, end] : {std::pair(std::int64_t{0}, split), std::pair(split, k)})
          if (end > begin)
            dot.run(a.at(i, begin), a.row_stride, a.column_stride, b.at(begin, 0), b.row_stride,
                    b.column_stride, &c[static_cast<std::size_t>(i * stride)], stride, rows, n, end - begin,
                    accumulate || begin > 0, scratch.data(), nullptr, 0);
        i += rows;
      }
      if (expected.empty()) expected = c;
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < m; ++i)
        wrong += std::memcmp(&c[static_cast<std::size_t>(i * stride)],
                             &expected[static_cast<std::size_t>(i * stride)],
                             static_cast<std::size_t>(n) * sizeof(C)) != 0;
      INFO("routine for " << most_rows << " rows" << (all_rows ? "" : ", parts"));
      CHECK(wrong == 0);
    }
  }
}

} // namespace

TEST_CASE("in a fixed order, sums begin with C and add products in the order of K, for any number of rows") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const Code& code : codes(random)) {
    check<bf16, bf16, float>(code, random);
    if (code.amx == test::Amx::Emulated) continue; // which multiplies no other floats
    check<float, float, float>(code, random);
    switch (random() % 4) {
    case 0: check<double, double, double>(code, random); break;
    case 1: check<f16, f16, float>(code, random); break;
    case 2: check<bf16, float, float>(code, random); break;
    default: check<float, double, double>(code, random); break;
    }
  }
}
