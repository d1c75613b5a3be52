// Tests the kernels of pages and samples on rows that are masked, or contain NaN and infinities. The last
// test checks that the pages and samples contain these kernels. (The online softmax has a test of its own.)
#include "random_numbers.h"

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);
KILN_DIM(BLOCK);

namespace {

namespace readme {
const auto matmul = kernel("matmul", [](View<const float, 2> a, View<const float, 2> b, View<float, 2> c) {
  auto [m, n] = program_tile(c, BM, BN); // each program computes one tile of c
  auto sum = for_range(BK, a.cols(), zeros<float>(BM, BN), [&](auto k, auto sum) {
    return sum + dot(a.tile(m, k).load(), b.tile(k, n).load()); // elements outside a and b read as zero
  });
  c.tile(m, n).store(relu(sum)); // elements outside c are not written
});
} // namespace readme

namespace triton {
const auto softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  expects(x.cols() <= dim_size(BLOCK), "x's columns and the size of BLOCK"); // checked at each launch
  auto [row] = program_tile(x, 1_c);             // the grid: one program for each row
  auto cols = offset(BLOCK, 0);                  // each program takes all columns
  Tile t = x.tile(row, cols).load_or(-INFINITY); // outside of x reads as -infinity
  Tile e = exp(t - max(t, BLOCK));               // max removes BLOCK; its result broadcasts
  y.tile(row, cols).store(e / sum(e, BLOCK));    // outside of y is not written
});
} // namespace triton

namespace samples {
const auto layernorm =
    kernel("layernorm", [](View<const float, 2> x, View<const float, 1> gamma, View<const float, 1> beta,
                           View<float, 2> y, Scalar<float> eps) {
      expects(x.cols() <= dim_size(BN), "x's columns and the size of BN");
      auto [row] = program_tile(x, BM);
      auto col = offset(BN, 0);
      auto count = cast<float>(x.cols());
      Tile t = x.tile(row, col).load();
      Tile mean = sum(t, BN, keep) / count;
      Tile centred = where(col + arange(BN) < x.cols(), t - mean, 0); // elements outside x must not count
      Tile scale = rsqrt(sum(centred * centred, BN, keep) / count + eps);
      y.tile(row, col).store(centred * scale * gamma.tile(col).load() + beta.tile(col).load());
    });

const auto relu_gemv =
    kernel("relu_gemv", [](View<const float, 2> a, View<const float, 1> x, View<float, 1> y) {
      expects(a.cols() == x.size(), "a's columns and x's size");
      expects(a.rows() == y.size(), "a's rows and y's size");
      auto [m] = program_tile(y, BM);
      auto total = for_range(BK, a.cols(), zeros<float>(BM), [&](auto k, auto total) {
        return total + sum(a.tile(m, k).load() * x.tile(k).load(), BK);
      });
      y.tile(m).store(relu(total));
    });

const auto distances =
    kernel("distances", [](View<const float, 2> points, View<const float, 1> query, View<float, 1> out) {
      expects(points.rows() == out.size(), "the rows of points and the size of out");
      expects(points.cols() == query.size(), "the columns of points and the size of query");
      auto [row] = program_tile(out, BM);
      auto total = for_range(BN, points.cols(), zeros<float>(BM), [&](auto col, auto total) {
        Tile difference = points.tile(row, col).load() - query.tile(col).load();
        return total + sum(difference * difference, BN);
      });
      out.tile(row).store(total);
    });
} // namespace samples

using Values = std::vector<float>;

constexpr std::int64_t rows = 12;

// Rows of random numbers, in which every third has a NaN, an infinity or -infinity, and every seventh only
// -infinity.
Values special(test::Random& random, std::int64_t cols) {
  Values x;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c)
      x.push_back(r % 7 == 6 ? -INFINITY : static_cast<float>(random.integer(-8, 8)) / 2);
    constexpr float specials[] = {NAN, INFINITY, -INFINITY};
    if (r % 3 == 1) x[static_cast<std::size_t>(r * cols + random.integer(0, cols - 1))] = specials[r / 3 % 3];
  }
  return x;
}

void check_same(const Values& found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i << ": " << found[i] << ", expected " << expected[i]);
    if (std::isnan(expected[i]))
      REQUIRE(std::isnan(found[i]));
    else if (std::isinf(expected[i]))
      REQUIRE(found[i] == expected[i]);
    else
      REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-4));
  }
}

template <int R> Tensor<float, R> tensor(const Values& values, const std::array<std::int64_t, R>& extents) {
  Tensor<float, R> t = [&] {
    if constexpr (R == 1)
      return Tensor<float, 1>::empty({extents[0]});
    else
      return Tensor<float, 2>::empty({extents[0], extents[1]});
  }();
  std::copy(values.begin(), values.end(), t.data());
  return t;
}

// Calls launch(stream, config of the device, device, result) for each device; `result` has as many elements
// as `expected`.
template <class Launch> void on_devices(const Values& expected, Launch&& launch) {
  for (const char* name : {"cpu", "emulated:sm_80", "emulated:sm_90a"}) {
    INFO(name);
    const Device device = Device::parse(name);
    Stream stream(device);
    auto result =
        tensor<1>(Values(expected.size(), 77), {static_cast<std::int64_t>(expected.size())}).to(device);
    launch(stream, device, result);
    stream.synchronize();
    auto host = result.to(Device::cpu());
    check_same(Values(host.data(), host.data() + host.size()), expected);
  }
}

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(std::string(KILN_TESTS_DIR) + "/" + file).rdbuf();
  return text.str();
}
std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}
// The kernel that begins at `start`, up to the end of its lambda.
std::string kernel_at(const std::string& text, const std::string& start) {
  const std::size_t begin = text.find(start);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, std::min(text.find("\n});\n", begin), text.find("\n    });\n", begin)) - begin);
}

} // namespace

TEST_CASE("documented products keep NaN and infinities") {
  test::Random random;
  const std::int64_t n = random.integer(1, 20), k = random.integer(1, 40);
  INFO("seed " << random.seed << ", " << n << " x " << k);
  const Values a = special(random, k);
  Values b;
  for (std::int64_t i = 0; i < k * n; ++i)
    b.push_back(static_cast<float>(random.integer(1, 3))); // no zero, so that no infinity becomes NaN
  Values c, y, d;
  for (std::int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += double{a[static_cast<std::size_t>(r * k + l)]} * b[static_cast<std::size_t>(l * n + j)];
      c.push_back(static_cast<float>(std::isnan(sum) ? NAN : std::max(sum, 0.0)));
      if (j == 0) y.push_back(c.back());
    }
    for (std::int64_t l = 0; l < k; ++l)
      squares +=
          std::pow(double{a[static_cast<std::size_t>(r * k + l)]} - b[static_cast<std::size_t>(l * n)], 2);
    d.push_back(static_cast<float>(squares));
  }
  Values column;
  for (std::int64_t l = 0; l < k; ++l)
    column.push_back(b[static_cast<std::size_t>(l * n)]);
  const auto host_a = tensor<2>(a, {rows, k}), host_b = tensor<2>(b, {k, n});
  const auto host_x = tensor<1>(column, {k});
  on_devices(c, [&](Stream& stream, Device device, auto& result) {
    auto at = host_a.to(device), bt = host_b.to(device);
    readme::matmul.launch(stream, {BM = 8, BN = 16, BK = 16}, at, bt, result.view().reshape({rows, n}));
    stream.synchronize(); // before the operands are freed
  });
  on_devices(y, [&](Stream& stream, Device device, auto& result) {
    auto at = host_a.to(device);
    auto xt = host_x.to(device);
    samples::relu_gemv.launch(stream, {BM = 4, BK = 16}, at, xt, result);
    stream.synchronize(); // before the operands are freed
  });
  on_devices(d, [&](Stream& stream, Device device, auto& result) {
    auto at = host_a.to(device);
    auto xt = host_x.to(device);
    samples::distances.launch(stream, {BM = 4, BN = 16}, at, xt, result);
    stream.synchronize(); // before the operands are freed
  });
}

TEST_CASE("documented kernels of rows keep NaN and infinities to their rows") {
  test::Random random;
  const std::int64_t cols = random.integer(1, 60);
  INFO("seed " << random.seed << ", " << cols << " columns");
  const Values x = special(random, cols);
  Values softmax, normalised;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x.data() + r * cols;
    double most = -INFINITY, total = 0, mean = 0, variance = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      if (row[c] > most) most = row[c]; // NaN is ignored here, and makes the sum NaN
      mean += row[c] / static_cast<double>(cols);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      total += std::exp(row[c] - most);
      variance += (row[c] - mean) * (row[c] - mean) / static_cast<double>(cols);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      softmax.push_back(static_cast<float>(std::exp(row[c] - most) / total));
      normalised.push_back(static_cast<float>((row[c] - mean) / std::sqrt(variance + 1e-2) * 2 + 1));
    }
  }
  const auto host = tensor<2>(x, {rows, cols});
  const auto two = tensor<1>(Values(static_cast<std::size_t>(cols), 2), {cols}),
             one = tensor<1>(Values(static_cast<std::size_t>(cols), 1), {cols});
  on_devices(softmax, [&](Stream& stream, Device device, auto& result) {
    auto xt = host.to(device);
    triton::softmax.launch(stream, {BLOCK = 64}, xt, result.view().reshape({rows, cols}));
    stream.synchronize(); // before the operands are freed
  });
  on_devices(normalised, [&](Stream& stream, Device device, auto& result) {
    auto xt = host.to(device);
    auto gamma = two.to(device), beta = one.to(device);
    samples::layernorm.launch(stream, {BM = 2, BN = 64}, xt, gamma, beta, result.view().reshape({rows, cols}),
                              1e-2f);
    stream.synchronize(); // before the operands are freed
  });
}

TEST_CASE("the pages and samples contain the kernels that are tested") {
  const std::string tested = without_spaces(text_of("dsl/test_documented_kernels.cpp"));
  const std::pair<const char*, const char*> kernels[] = {
      {"../README.md", "kernel(\"matmul\""},
      {"../dsl/FROM_TRITON.md", "kernel(\"softmax\""},
      {"../samples/04_layernorm.cpp", "kernel(\"layernorm\""},
      {"../samples/08_tune_your_kernel.cpp", "kernel(\"relu_gemv\""},
      {"../samples/template/main.cpp", "kernel(\"distances\""},
  };
  for (const auto& [file, start] : kernels) {
    const std::string kernel = kernel_at(text_of(file), start);
    INFO(file << ": " << kernel);
    CHECK(tested.find(without_spaces(kernel)) != std::string::npos);
  }
}
