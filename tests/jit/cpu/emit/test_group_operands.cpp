// Tests products with computed operands, which are computed once for a group of programs.
#include "jit/cpu/cpu_runner.h"
#include "jit/cpu/product_reference.h"
#include "left_out.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

using A = View<const float, 2>;
using Scales = View<const float, 1>;
using C = View<float, 2>;

// c = f(a) g(b), or 2 f(a) g(b) + 1 with an epilogue.
template <class TB, class F, class G> auto product_of(bool epilogue, const F& f, const G& g) {
  return [=](A a, View<const TB, 2> b, Scales s, C c) {
    auto [m, n] = program_tile(c, BM, BN);
    Tile scales = s.tile(n).load();
    Scalar<float> one = s.at(0).load();
    auto sums = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
      return dot(f(a.tile(m, k).load(), one, m, k), g(b, scales, k, n), sum);
    });
    if (epilogue)
      c.tile(m, n).store(sums * 2.0f + 1.0f);
    else
      c.tile(m, n).store(sums);
  };
}

enum class Made { A, AScaled, ATriangle, B, BTransposed, Both };

bool makes_a(Made made) { return made == Made::A || made == Made::Both; }
bool makes_b(Made made) { return made == Made::B || made == Made::BTransposed || made == Made::Both; }

template <class TB> std::shared_ptr<ir::Kernel> recorded(Made made, bool epilogue, const Config& config) {
  auto plain_a = [](auto tile, auto, auto, auto) { return tile; };
  auto made_a = [](auto tile, auto, auto, auto) { return abs(tile) - 0.5f; };
  auto scaled = [](auto tile, auto one, auto, auto) { return tile * one; };
  auto triangle = [](auto tile, auto, auto m, auto k) {
    return where(expand<0>(k + arange(BK)) <= expand<1>(m + arange(BM)), tile, 0.0f);
  };
  auto plain_b = [](const auto& b, auto, auto k, auto n) { return b.tile(k, n).load(); };
  auto made_b = [](const auto& b, auto s, auto k, auto n) {
    return cast<float>(b.tile(k, n).load()) * expand<0>(s);
  };
  auto transposed = [](const auto& b, auto s, auto k, auto n) {
    return trans(cast<float>(b.tile(n, k).load()) * expand<1>(s));
  };
  auto record = [&](const auto& f, const auto& g) {
    return kernel("prologue", product_of<TB>(epilogue, f, g)).record(config);
  };
  if constexpr (std::is_same_v<TB, float>) {
    if (made == Made::A) return record(made_a, plain_b);
    if (made == Made::AScaled) return record(scaled, plain_b);
    if (made == Made::ATriangle) return record(triangle, plain_b);
  }
  if (made == Made::B) return record(plain_a, made_b);
  if (made == Made::BTransposed) return record(plain_a, transposed);
  return record(made_a, made_b);
}

std::uint64_t word(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

template <class TB>
void check(Made made, bool epilogue, const Config& config, std::int64_t tm, std::int64_t tn,
           std::mt19937_64& random) {
  if (test::left_out(random)) return;
  auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::int64_t m = draw(1, 300), n = draw(1, 300), k = draw(1, draw(0, 3) == 0 ? 1200 : 100);
  CAPTURE(made, epilogue, m, n, k);
  const test::CpuKernel compiled(*recorded<TB>(made, epilogue, config), config,
                                 std::vector<LayoutClass>(4, LayoutClass::Unit));
  CHECK(compiled.grouping.m_axis == 0);
  CHECK(compiled.grouping.n_axis == 1);
  CHECK(compiled.scratch_bytes < 10 << 20); // with 16 registers, 2 MiB of them are packed columns

  auto a = test::random_matrix(m, k, random), s = test::random_matrix(1, n, random);
  const bool transposed = made == Made::BTransposed;
  const std::int64_t rows = transposed ? n : k, columns = transposed ? k : n;
  auto b = Tensor<TB, 2>::empty({rows, columns});
  for (auto& x : b)
    x = static_cast<TB>(static_cast<float>(draw(-8, 8)));
  auto left = Tensor<float, 2>::empty({m, k}), right = Tensor<float, 2>::empty({k, n});
  for (std::int64_t i = 0; i < m * k; ++i) {
    left.data()[i] = makes_a(made) ? std::abs(a.data()[i]) - 0.5f : a.data()[i];
    if (made == Made::AScaled) left.data()[i] *= s.data()[0];
    if (made == Made::ATriangle && i % k > i / k) left.data()[i] = 0;
  }
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto x = static_cast<float>(b.data()[transposed ? j * k + i : i * n + j]);
      right.data()[i * n + j] = makes_b(made) ? x * s.data()[j] : x;
    }

  std::vector<float> first;
  for (int threads : {1, 3}) {
    auto c = Tensor<float, 2>::empty({m, n});
    c.fill(NAN);
    auto number = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    const std::vector<std::uint64_t> words = {word(a.data()),
                                              number(m),
                                              number(k),
                                              number(k),
                                              1,
                                              word(b.data()),
                                              number(rows),
                                              number(columns),
                                              number(columns),
                                              1,
                                              word(s.data()),
                                              number(n),
                                              1,
                                              word(c.data()),
                                              number(m),
                                              number(n),
                                              number(n),
                                              1};
    compiled.run(words.data(), {(m + tm - 1) / tm, (n + tn - 1) / tn}, 0xFF, 2, 0, threads);
    if (threads == 1) {
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = i % 3; j < n; j += 3) {
          const double sum = test::exact_product(left, right, i, j);
          REQUIRE(c.data()[i * n + j] == Approx(epilogue ? 2 * sum + 1 : sum).margin(1e-3));
        }
      first.assign(c.begin(), c.end());
    }
    REQUIRE(std::equal(first.begin(), first.end(), c.begin())); // the grouping of programs must not matter
  }
}

} // namespace

TEST_CASE("products with computed operands are right on ragged sizes, with tiles of any extents") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  struct Tiles {
    std::int64_t m, n, k;
  };
  for (auto [tm, tn, tk] : {Tiles{1, 64, 16},
                            {16, 48, 8},
                            {33, 17, 5},
                            {64, 1, 32},
                            {8, 8, 1},
                            {40, 100, 3},
                            {5, 200, 24},
                            {64, 64, 65},
                            {2, 3, 600}}) {
    CAPTURE(tm, tn, tk);
    const Config config = {BM = tm, BN = tn, BK = tk};
    const bool epilogue = random() % 2 == 0;
    check<float>(Made::A, epilogue, config, tm, tn, random);
    check<float>(Made::AScaled, !epilogue, config, tm, tn, random);
    check<float>(Made::ATriangle, epilogue, config, tm, tn, random);
    check<float>(Made::B, epilogue, config, tm, tn, random);
    check<std::int8_t>(Made::B, !epilogue, config, tm, tn, random);
    check<std::int8_t>(Made::BTransposed, epilogue, config, tm, tn, random);
    check<bf16>(Made::Both, !epilogue, config, tm, tn, random);
  }
}

TEST_CASE("batched products with computed operands are grouped along rows and columns, not along the batch") {
  const auto batched =
      kernel("batched", [](View<const float, 3> a, View<const float, 3> b, View<float, 3> c) {
        auto z = program_id(0);
        auto m = program_id(1) * BM;
        auto n = program_id(2) * BN;
        auto sums = for_range(BK, a.extent(2), zeros<float>(BM, BN), [&](auto k, auto sum) {
          return dot(abs(a.tile(z, m, k).load()), abs(b.tile(z, k, n).load()), sum);
        });
        c.tile(z, m, n).store(sums);
      });
  for (auto [tm, tn] : {std::pair{1, 64}, {64, 1}, {8, 8}}) {
    const Config config = {BM = tm, BN = tn, BK = 16};
    const auto grouping =
        cpu::grouping_of(*passes::lower_generic(*batched.record(config), {config, {}}), cpu::host_target());
    CHECK(grouping.m_axis == 1);
    CHECK(grouping.n_axis == 2);
  }
  const auto shared = kernel("shared", [](View<const float, 3> a, A b, View<float, 3> c) {
    auto z = program_id(0);
    auto m = program_id(1) * BM;
    auto n = program_id(2) * BN;
    auto sums = for_range(BK, a.extent(2), zeros<float>(BM, BN), [&](auto k, auto sum) {
      return dot(abs(a.tile(z, m, k).load()), b.tile(k, n).load(), sum);
    });
    c.tile(z, m, n).store(sums);
  });
  for (int tm : {1, 8}) {
    const Config config = {BM = tm, BN = 64, BK = 16};
    const auto grouping =
        cpu::grouping_of(*passes::lower_generic(*shared.record(config), {config, {}}), cpu::host_target());
    CHECK(grouping.m_axis == 1);
    CHECK(grouping.n_axis == 2);
  }
}
