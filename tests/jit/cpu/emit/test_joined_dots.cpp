// Tests dots whose operands share a nest with the values they are computed from, on each CPU.
#include "jit/cpu/cpu_runner.h"
#include "jit/cpu/other_cpus.h"
#include "test_seed.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <random>

using namespace kiln;

namespace {

KILN_DIM(ROWS);
KILN_DIM(DEPTH);
KILN_DIM(COLUMNS);

using In = View<const float, 2>;

struct Matrices {
  std::int64_t rows, depth, columns;
  std::vector<float> x, sums, out;
  std::vector<bf16> v, kept;

  Matrices(std::int64_t m, std::int64_t k, std::int64_t n, std::mt19937_64& random)
      : rows(m), depth(k), columns(n), x(size(m * k)), sums(size(m), NAN), out(size(m * n), NAN),
        v(size(k * n)), kept(size(m * k), bf16(NAN)) {
    std::uniform_real_distribution<float> number(-4, 1);
    for (float& e : x)
      e = number(random);
    for (bf16& e : v)
      e = bf16(number(random));
  }
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  float at(std::int64_t i, std::int64_t k) const { return x[size(i * depth + k)]; }

  std::vector<std::uint64_t> words() {
    std::vector<std::uint64_t> words;
    auto matrix = [&](const void* data, std::int64_t m, std::int64_t n) {
      words.push_back(reinterpret_cast<std::uint64_t>(data));
      for (std::int64_t word : {m, n, n, std::int64_t{1}})
        words.push_back(static_cast<std::uint64_t>(word));
    };
    matrix(x.data(), rows, depth);
    matrix(v.data(), depth, columns);
    matrix(out.data(), rows, columns);
    words.push_back(reinterpret_cast<std::uint64_t>(sums.data()));
    words.push_back(static_cast<std::uint64_t>(rows));
    words.push_back(1);
    matrix(kept.data(), rows, depth);
    return words;
  }
};

// Computes out = weights v and the sums of the weights, and stores the weights if `keeps`. Weights are
// exp(x), rounded to v's dtype.
template <bool keeps>
const auto weighted = kernel(
    "weighted", [](In x, View<const bf16, 2> v, View<float, 2> out, View<float, 1> sums, View<bf16, 2> kept) {
      auto [m, n] = program_tile(out, ROWS, COLUMNS);
      auto begin = offset(DEPTH, 0);
      Tile inside = expand<0>(arange(DEPTH)) < cast<std::int32_t>(x.cols());
      Tile weights = exp(where(inside, x.tile(m, begin).load(), -INFINITY));
      Tile all = sum(weights, DEPTH);
      Tile rounded = cast<bf16>(weights);
      Tile product = dot(rounded, v.tile(begin, n).load());
      if (keeps) kept.tile(m, begin).store(rounded);
      out.tile(m, n).store(product);
      sums.tile(m).store(all);
    });

void check(const Matrices& r, bool keeps) {
  double worst = 0, worst_sum = 0;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < r.rows; ++i) {
    double all = 0;
    for (std::int64_t k = 0; k < r.depth; ++k) {
      const double weight = std::exp(static_cast<double>(r.at(i, k)));
      all += weight;
      const auto kept = static_cast<double>(static_cast<float>(r.kept[Matrices::size(i * r.depth + k)]));
      if (keeps) wrong += !(std::abs(kept - weight) <= weight / 256 + 0x1p-133);
    }
    worst_sum = std::max(worst_sum, std::abs(r.sums[Matrices::size(i)] - all) / all);
    for (std::int64_t j = 0; j < r.columns; ++j) {
      double sum = 0, scale = 1e-30;
      for (std::int64_t k = 0; k < r.depth; ++k) {
        const auto v = static_cast<double>(static_cast<float>(r.v[Matrices::size(k * r.columns + j)]));
        const double term = std::exp(static_cast<double>(r.at(i, k))) * v;
        sum += term, scale += std::abs(term);
      }
      const double error = std::abs(r.out[Matrices::size(i * r.columns + j)] - sum) / scale;
      if (!(error <= worst)) worst = error;
    }
  }
  CHECK(worst < 0x1p-8); // rounding to bf16 causes half of it
  CHECK(worst_sum < 1e-6);
  CHECK(wrong == 0);
}

std::vector<cpu::Target> all_targets() {
  auto targets = test::other_cpus();
  targets.push_back(cpu::host_target());
  return targets;
}

} // namespace

TEST_CASE("weights that are rounded where they are computed are those whose sum is taken") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
  };
  for (const cpu::Target& target : all_targets())
    for (auto [rows, depth, columns] : {std::array{64, 128, 64}, {8, 16, 16}, {2, 256, 32}, {33, 48, 24}}) {
      const Config config = {ROWS = rows, DEPTH = depth, COLUMNS = columns};
      const test::CpuKernel plain(*weighted<false>.record(config), config, {}, {}, target);
      const test::CpuKernel keeps(*weighted<true>.record(config), config, {}, {}, target);
      for (int i = 0; i < 3; ++i) {
        const std::int64_t m = up_to(2 * rows), k = up_to(depth), n = up_to(columns);
        CAPTURE(target.cpu, rows, depth, columns, m, k, n);
        for (const auto* code : {&plain, &keeps}) {
          Matrices r(m, k, n, random);
          const auto words = r.words();
          code->run(words.data(), ir::grid_of(*code->lowered, words.data()));
          check(r, code == &keeps);
        }
      }
    }
}

TEST_CASE("weights that are stored keep their denormals, whichever instruction multiplies them") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Config config = {ROWS = 32, DEPTH = 64, COLUMNS = 32};
  for (const cpu::Target& target : all_targets()) {
    CAPTURE(target.cpu);
    const test::CpuKernel code(*weighted<true>.record(config), config, {}, {}, target);
    Matrices r(32, 64, 32, random);
    for (float& x : r.x)
      x = -89; // exp is 2.2e-39
    const auto words = r.words();
    code.run(words.data(), ir::grid_of(*code.lowered, words.data()));
    std::int64_t wrong = 0;
    for (bf16 kept : r.kept)
      wrong += std::abs(static_cast<double>(static_cast<float>(kept)) / std::exp(-89.0) - 1) > 0.05;
    CHECK(wrong == 0);
  }
}

TEST_CASE("a nest uses the values that were read before a store overwrote them") {
  const auto exchanged = kernel("exchanged", [](View<float, 2> x, View<float, 1> sums) {
    auto [m, n] = program_tile(x, ROWS, COLUMNS);
    Tile weights = exp(x.tile(m, n).load());
    x.tile(m, n).store(weights * 0.5f);
    Tile all = sum(weights, COLUMNS);
    sums.tile(m).store(all);
  });
  for (const cpu::Target& target : all_targets()) {
    CAPTURE(target.cpu);
    const Config config = {ROWS = 4, COLUMNS = 64};
    const test::CpuKernel code(*exchanged.record(config), config, {}, {}, target);
    std::vector<float> x(10 * 64, -1), sums(10, NAN);
    const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(x.data()),    10, 64, 64, 1,
                                   reinterpret_cast<std::uint64_t>(sums.data()), 10, 1};
    code.run(words, ir::grid_of(*code.lowered, words));
    CHECK(std::all_of(x.begin(), x.end(), [](float e) { return std::abs(e - std::exp(-1.0) / 2) < 1e-6; }));
    CHECK(std::all_of(sums.begin(), sums.end(),
                      [](float e) { return std::abs(e - 64 * std::exp(-1.0)) < 1e-4; }));
  }
}
