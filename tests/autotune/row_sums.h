// Provides a small kernel to tune, its search space and its arguments.
#pragma once

#include "test_seed.h"

#include <kiln/autotune/tuned.h>
#include <kiln/dsl/language.h>
#include <kiln/jit/runtime/tensor.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace kiln::test {

KILN_DIM(BM);
KILN_DIM(BN);

using RowSums = Kernel<View<const float, 2>, View<float, 1>>;

// Creates a separate kernel for each test, so that no test finds the records of another.
inline RowSums row_sums(const char* name) {
  return kernel(name, [](View<const float, 2> x, View<float, 1> out) {
    expects(x.rows() == out.size(), "x's rows and out's size");
    auto [m] = program_tile(out, BM);
    auto total = for_range(BN, x.cols(), zeros<float>(BM),
                           [&](auto n, auto total) { return total + sum(x.tile(m, n).load(), BN); });
    out.tile(m).store(total);
  });
}

inline tune::Space row_space() {
  tune::Space space;
  space.pow2(BM, 1, 32).pow2(BN, 16, 512).keeps_order({BM}).seed({{"BM", 4}, {"BN", 64}});
  return space;
}

// Options for a few trials on problems with named sizes.
inline tune::TunedOptions with_mode(tune::Mode mode) {
  tune::TunedOptions options;
  options.key = {{"M", 0, 0}, {"N", 0, 1}};
  options.mode = mode;
  options.search.trials = 6;
  options.search.seconds = 300;
  options.search.strategy = "random";
  return options;
}

struct Rows {
  Tensor<float, 2> x;
  Tensor<float, 1> out;
  std::uint64_t seed = fresh_seed();
  Rows(std::int64_t m, std::int64_t n)
      : x(Tensor<float, 2>::empty({m, n})), out(Tensor<float, 1>::empty({m})) {
    std::mt19937_64 random(seed);
    for (float& v : x)
      v = std::uniform_real_distribution<float>(-1, 1)(random);
    out.fill(NAN);
  }
  void check() const {
    INFO("KILN_TEST_SEED=" << seed);
    const std::int64_t m = out.size(), n = x.size() / m;
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j)
        sum += double{x.data()[i * n + j]};
      REQUIRE(std::abs(out.data()[i] - sum) <= 1e-4);
    }
  }
};

} // namespace kiln::test
