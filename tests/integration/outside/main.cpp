// Runs and checks three kernels, and the tuner's public interface, with nothing of Kiln but the installed
// package.
#include "tuning.h"

#include <kiln/kiln.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include <kiln/jit/base/version.h>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {

const auto add = kernel("add", [](View<const float, 1> x, View<const float, 1> y, View<float, 1> out) {
  auto [i] = program_tile(out, BN);
  out.tile(i).store(x.tile(i).load() + y.tile(i).load());
});

const auto softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  auto [row] = program_tile(x, BM);
  auto start = state(full(-INFINITY, BM), zeros<float>(BM));
  auto [top, total] = for_range(BN, x.cols(), start, [&](auto col, auto top, auto total) {
    auto t = x.tile(row, col).load_or(-INFINITY);
    Tile next = max(top, max(t, BN));
    Tile shift = where(next == -INFINITY, 0, next);
    return state(next, total * exp(top - shift) + sum(exp(t - expand<1>(shift)), BN));
  });
  for_range(BN, x.cols(), [&](auto col) {
    y.tile(row, col).store(exp(x.tile(row, col).load() - expand<1>(top)) / expand<1>(total));
  });
});

// A kernel's function may also be a struct with operator(), and a template of one works for any dtype.
template <class T> struct ColumnSums {
  void operator()(View<const T, 2> x, View<double, 1> sums) const {
    auto [n] = program_tile(sums, BN);
    sums.tile(n).store(for_range(BM, x.rows(), zeros<double>(BN), [&](auto m, auto acc) {
      return acc + sum(cast<double>(x.tile(m, n).load()), BM);
    }));
  }
};

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * (1 + std::abs(b)); } // false for NaN

int fail(const char* what) {
  std::printf("%s is wrong\n", what);
  return 1;
}

// KILN_TEST_SEED, or a new seed in each run.
std::uint64_t fresh_seed() {
  const char* text = std::getenv("KILN_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

} // namespace

int main() {
  std::printf("kiln %s with llvm %s\n", version(), llvm_version());
  if (std::string_view(version()).empty() || !std::string_view(llvm_version()).starts_with("22."))
    return fail("the version");

  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 50),
                     cols = 1 + static_cast<std::int64_t>(random() % 700);
  std::printf("seed %llu: %lld x %lld\n", static_cast<unsigned long long>(seed), static_cast<long long>(rows),
              static_cast<long long>(cols));
  const auto n = static_cast<std::size_t>(rows * cols);
  std::vector<float> x(n), y(n), total(n, NAN), soft(n, NAN);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(random() % 1000) / 100 - 5;
    y[i] = static_cast<float>(random() % 1000) / 100 - 5;
  }
  std::vector<double> sums(static_cast<std::size_t>(cols), NAN);
  TensorView a(x, {rows, cols}), s(soft, {rows, cols});

  Stream stream;
  add.launch(stream, {BN = 256}, TensorView(x), TensorView(y), TensorView(total));
  softmax.launch(stream, {BM = 4, BN = 128}, a, s);
  const auto column_sums = kernel("column_sums", ColumnSums<float>{});
  column_sums.launch(stream, {BM = 16, BN = 64}, a, TensorView(sums));
  stream.synchronize();

  for (std::size_t i = 0; i < n; ++i)
    if (total[i] != x[i] + y[i]) return fail("the sum of vectors");
  for (std::int64_t r = 0; r < rows; ++r) {
    double exponentials = 0;
    for (std::int64_t c = 0; c < cols; ++c)
      exponentials += std::exp(static_cast<double>(a(r, c)));
    for (std::int64_t c = 0; c < cols; ++c)
      if (!near(s(r, c), std::exp(static_cast<double>(a(r, c))) / exponentials)) return fail("the softmax");
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    double sum_of_column = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      sum_of_column += static_cast<double>(a(r, c));
    if (!near(sums[static_cast<std::size_t>(c)], sum_of_column)) return fail("a column's sum");
  }

  try {
    softmax.launch(stream, {BM = 4}, a, s); // BN has no size
    return fail("a config without a dimension");
  } catch (const UserError& error) {
    if (std::string_view(error.what()).find("BN") == std::string_view::npos) return fail(error.what());
  }
  if (const char* wrong = check_tuning()) return fail(wrong);
}
