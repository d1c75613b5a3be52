// Tests sums of a group of programs that are kept in scratch memory for an epilogue.
#include "jit/cpu/cpu_runner.h"
#include "jit/cpu/product_reference.h"
#include "left_out.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

// c = 2 a b + 1
auto doubled_product() {
  return kernel("doubled", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                         [&](auto k, auto s) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), s); });
    c.tile(m, n).store(sum * 2.0f + 1.0f);
  });
}

std::vector<std::uint64_t> words_of(const std::vector<Tensor<float, 2>*>& tensors) {
  std::vector<std::uint64_t> words;
  for (Tensor<float, 2>* t : tensors)
    for (std::uint64_t w : {reinterpret_cast<std::uint64_t>(t->data()), std::uint64_t(t->extent(0)),
                            std::uint64_t(t->extent(1)), std::uint64_t(t->extent(1)), std::uint64_t{1}})
      words.push_back(w);
  return words;
}

test::CpuKernel compiled(std::int64_t tm, std::int64_t tn) {
  const Config config = {BM = tm, BN = tn, BK = 16};
  return test::CpuKernel(*doubled_product().record(config), config, {3, LayoutClass::Unit});
}

// Runs the kernel on one thread, with scratch memory that is poisoned and guarded, and checks the results.
void check(const test::CpuKernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
           std::mt19937_64& random) {
  const std::int64_t tm = kernel.grouping.tile_m, tn = kernel.grouping.tile_n;
  CAPTURE(tm, tn, m, n, k);
  auto a = test::random_matrix(m, k, random), b = test::random_matrix(k, n, random);
  auto c = Tensor<float, 2>::empty({m, n});
  c.fill(NAN);
  const auto words = words_of({&a, &b, &c});
  kernel.run(words.data(), {(m + tm - 1) / tm, (n + tn - 1) / tn});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = i % 3; j < n; j += 3)
      REQUIRE(c.data()[i * n + j] == Approx(2 * test::exact_product(a, b, i, j) + 1));
}

} // namespace

TEST_CASE("sums of programs do not overlap in groups of one long row, or of many short rows") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (auto [tm, tn] : {std::pair{1, 64}, {1, 8}, {2, 256}, {4, 1}, {4, 128}, {8, 32}, {32, 64}, {64, 16}}) {
    const auto kernel = compiled(tm, tn);
    check(kernel, draw(1, 6), draw(5000, 40000), draw(1, 20), random);
    check(kernel, draw(1, 400), draw(1, 300), draw(1, 20), random);
  }
}

TEST_CASE("groups of the largest size do not exceed their scratch memory") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (auto [tm, tn] : {std::pair{1, 256}, {4, 64}, {16, 64}, {64, 64}, {16, 8}}) {
    const auto kernel = compiled(tm, tn);
    const auto& grouping = kernel.grouping;
    CAPTURE(tm, tn, grouping.most_m, grouping.most_n, grouping.most_programs);
    CHECK(grouping.has_groups());
    CHECK(kernel.scratch_bytes < 8 << 20);
    // As many programs as allowed along one axis, and along the other axis as many as the total allows.
    const std::int64_t tall = std::min(grouping.most_m, grouping.most_programs),
                       wide = std::min(grouping.most_n, grouping.most_programs);
    check(kernel, std::max<std::int64_t>(1, std::min(grouping.most_m, grouping.most_programs / wide)) * tm,
          wide * tn, 3, random);
    check(kernel, tall * tm,
          std::max<std::int64_t>(1, std::min(grouping.most_n, grouping.most_programs / tall)) * tn, 3,
          random);
  }
}

namespace {

// c = a b, rounded to bf16.
auto rounded_product() {
  return kernel("rounded", [](View<const bf16, 2> a, View<const bf16, 2> b, View<bf16, 2> c) {
    auto [m, n] = program_tile(c, BM, BN);
    auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN),
                         [&](auto k, auto s) { return dot(a.tile(m, k).load(), b.tile(k, n).load(), s); });
    c.tile(m, n).store(cast<bf16>(sum));
  });
}

} // namespace

TEST_CASE("sums are rounded to bf16 once, and rows or columns without operands are zero") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const auto product = rounded_product();
  auto check = [&](std::int64_t tm, std::int64_t tn, std::int64_t m, std::int64_t n, std::int64_t k,
                   std::int64_t more_rows, std::int64_t more_columns) {
    CAPTURE(tm, tn, m, n, k, more_rows, more_columns);
    if (test::left_out(random)) return;
    const auto wide_a = test::random_matrix(m, k, random), wide_b = test::random_matrix(k, n, random);
    auto narrow = [](const Tensor<float, 2>& wide) {
      auto t = Tensor<bf16, 2>::empty({wide.extent(0), wide.extent(1)});
      std::transform(wide.begin(), wide.end(), t.begin(), [](float x) { return bf16(x); });
      return t;
    };
    const auto a = narrow(wide_a), b = narrow(wide_b);
    const std::int64_t rows = m + more_rows, columns = n + more_columns;
    auto c = Tensor<bf16, 2>::empty({rows, columns});
    c.fill(bf16(NAN));
    Stream stream;
    product.launch(stream, {BM = tm, BN = tn, BK = 32}, a, b, c);
    stream.synchronize();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = i % 3; j < columns; j += 3) {
        const double sum = i < m && j < n ? test::exact_product(wide_a, wide_b, i, j) : 0;
        REQUIRE(static_cast<float>(c.data()[i * columns + j]) ==
                static_cast<float>(bf16(static_cast<float>(sum))));
      }
  };
  for (auto [tm, tn] : {std::pair{64, 64}, {128, 32}, {48, 96}, {16, 64}}) {
    for (std::int64_t k : {draw(0, 3) * 32, draw(1, 40) * 32, draw(1, 500), std::int64_t{4128}})
      check(tm, tn, draw(1, 300), draw(1, 300), k, 0, 0);
    check(tm, tn, draw(1, 200), draw(1, 200), 64, draw(1, 70), 0);
    check(tm, tn, draw(1, 200), draw(1, 200), 64, 0, draw(1, 70));
    check(tm, tn, draw(100, 200), draw(100, 200), 64, -draw(1, 70), -draw(1, 70));
  }
}
