// Tests launches on the CPU against the interpreter and plain C++.
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

namespace {

std::vector<float> random_floats(std::mt19937_64& random, std::int64_t n) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values)
    v = numbers(random);
  return values;
}

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});

} // namespace

TEST_CASE("a launched kernel adds vectors of any length") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Stream stream;
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t(random() % 100000)}) {
    auto x = random_floats(random, n), y = random_floats(random, n);
    std::vector<float> out(x.size(), NAN), reference(x.size(), NAN);
    add.launch(stream, {BN = 256}, TensorView(x), TensorView(y), TensorView(out));
    add.interpret({BN = 256}, TensorView(x), TensorView(y), TensorView(reference));
    stream.synchronize();
    REQUIRE(out == reference);
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(out[i] == x[i] + y[i]);
  }
}

namespace {
const auto matmul = kernel("matmul", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  expects(a.cols() == b.rows(), "a's columns and b's rows");
  auto [m, n] = program_tile(c, BM, BN);
  auto acc = for_range(BK, a.cols(), zeros<float>(BM, BN),
                       [&](auto k, auto sum) { return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()); });
  c.tile(m, n).store(relu(acc));
});
} // namespace

TEST_CASE("a launched matmul with ragged edges agrees with doubles and the interpreter, in any layout") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  auto extent = [&] { return static_cast<std::int64_t>(1 + random() % 70); };
  Stream stream;
  for (int round = 0; round < 6; ++round) {
    std::int64_t m = extent(), n = extent(), k = extent();
    auto a = random_floats(random, m * k), b = random_floats(random, k * n);
    std::vector<float> c(static_cast<std::size_t>(m * n), NAN), interpreted = c;
    bool transposed = round % 2;
    TensorView av = transposed ? TensorView(a, {k, m}).transpose() : TensorView(a, {m, k});
    TensorView bv(b, {k, n}), cv(c, {m, n}), iv(interpreted, {m, n});
    Config config{BM = 16, BN = 32, BK = 12};
    matmul.launch(stream, config, av, bv, cv);
    matmul.interpret(config, av, bv, iv);
    stream.synchronize();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(av(i, p)) * bv(p, j);
        INFO(m << " " << n << " " << k << " at " << i << ", " << j);
        REQUIRE(cv(i, j) == Approx(std::max(0.0, sum)).margin(1e-5 * static_cast<double>(k)));
        REQUIRE(cv(i, j) == Approx(iv(i, j)).margin(1e-5 * static_cast<double>(k)));
      }
  }
}

TEST_CASE("scalars, raw pointers and tensors are passed to their parameters") {
  auto k = kernel("mixed", [](View<float, 1> x, Scalar<std::int64_t> n, Scalar<bool> negative,
                              raw::Ptr<const double> p, Scalar<bf16> f, Scalar<std::uint8_t> u) {
    auto [i] = program_tile(x, BN);
    auto v = cast<float>(n) + cast<float>(raw::load(p)) + cast<float>(f) + cast<float>(u);
    x.tile(i).store(where(negative, -v, v));
  });
  auto x = Tensor<float, 1>::zeros({5});
  const double p = 0.25;
  Stream stream;
  k.launch(stream, {BN = 4}, x, -3, true, &p, bf16(1.5f), std::size_t{200});
  stream.synchronize();
  for (float v : x)
    REQUIRE(v == -(-3 + 0.25f + 1.5f + 200));
}

TEST_CASE("memory outside of the views is not changed") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<float> memory(1000, 7);
  auto inside = TensorView(memory, {10, 100}).slice(0, 2, 7).slice(1, 13, 60);
  auto fill = kernel("fill", [](View<float, 2> x) {
    auto [i, j] = program_tile(x, BM, BN);
    x.tile(i, j).store(1.0f);
  });
  Stream stream;
  fill.launch(stream, {BM = 4, BN = 16}, inside);
  stream.synchronize();
  for (std::int64_t i = 0; i < 10; ++i)
    for (std::int64_t j = 0; j < 100; ++j)
      REQUIRE(memory[static_cast<std::size_t>(i * 100 + j)] ==
              (i >= 2 && i < 7 && j >= 13 && j < 60 ? 1 : 7));
}

TEST_CASE("a copy of a kernel shares its code, and queued launches outlive all copies") {
  auto before = compile_statistics();
  std::vector<float> x(100000);
  Stream stream;
  {
    auto original = kernel("outlived", [](View<float, 1> v) {
      auto [i] = program_tile(v, BN);
      v.tile(i).store(v.tile(i).load() + 1.0f);
    });
    auto copy = original;
    for (int i = 0; i < 10; ++i)
      (i % 2 ? original : copy).launch(stream, {BN = 64}, TensorView(x));
  }
  stream.synchronize();
  auto after = compile_statistics();
  REQUIRE(after.compiled + after.disk_hits == before.compiled + before.disk_hits + 1);
  REQUIRE(x == std::vector<float>(x.size(), 10.0f));
}

TEST_CASE("value() makes a kernel specific to each config") {
  auto k = kernel("sized", [](View<float, 1> x) {
    auto [i] = program_tile(x, BN);
    x.tile(i).store(static_cast<float>(value(BN)));
  });
  Stream stream;
  for (int size : {4, 8, 4}) {
    std::vector<float> x(10);
    k.launch(stream, {BN = size}, TensorView(x));
    stream.synchronize();
    REQUIRE(x == std::vector<float>(10, static_cast<float>(size)));
  }
}
