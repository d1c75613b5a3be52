// Tests the softmax of dsl/LANGUAGE.md and of samples/03_softmax.cpp, and the attention of benchmarks/, on rows
// with -infinity, infinity and NaN. The last test checks that the page and the sample contain these kernels.
#include "random_numbers.h"

#include "benchmarks/attention.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace kiln;

KILN_DIM(BM);
KILN_DIM(BN);

namespace {

namespace page {
const auto rows_softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  auto [row] = program_tile(x, BM);
  auto first = state(full(-INFINITY, BM), zeros<float>(BM));
  auto [m, l] = for_range(BN, x.cols(), first, [&](auto col, auto m, auto l) {
    auto t = x.tile(row, col).load_or(-INFINITY);
    Tile next = max(m, max(t, BN));
    Tile shift = where(next == -INFINITY, 0, next); // -infinity - -infinity would be NaN
    return state(next, l * exp(m - shift) + sum(exp(t - expand<1>(shift)), BN));
  });
  for_range(BN, x.cols(), [&](auto col) {
    y.tile(row, col).store(exp(x.tile(row, col).load() - expand<1>(m)) / expand<1>(l));
  });
});
} // namespace page

namespace sample {
const auto softmax = kernel("softmax", [](View<const float, 2> x, View<float, 2> y) {
  expects(x.rows() == y.rows(), "x's and y's rows");
  expects(x.cols() == y.cols(), "x's and y's columns");
  auto [row] = program_tile(x, BM);
  auto [most, total] =
      for_range(BN, x.cols(), state(full(-INFINITY, BM, 1_c), zeros<float>(BM, 1_c)),
                [&](auto col, auto most, auto total) {
                  Tile t = x.tile(row, col).load_or(-INFINITY); // the value outside the view
                  Tile next = max(most, max(t, BN, keep));
                  Tile shift = where(next == -INFINITY, 0, next); // -infinity - -infinity would be NaN
                  return state(next, total * exp(most - shift) + sum(exp(t - shift), BN, keep));
                });
  for_range(BN, x.cols(), [&](auto col) {
    y.tile(row, col).store(exp(x.tile(row, col).load() - most) / total); // elements outside are not written
  });
});
} // namespace sample

using Values = std::vector<float>;

// What frameworks compute: all NaN if the row has NaN or infinity, or only -infinity.
Values exact_softmax(const float* x, std::int64_t n) {
  double most = -INFINITY, total = 0;
  for (std::int64_t i = 0; i < n; ++i)
    most = x[i] > most || std::isnan(x[i]) ? x[i] : most;
  for (std::int64_t i = 0; i < n; ++i)
    total += std::exp(x[i] - most);
  Values y;
  for (std::int64_t i = 0; i < n; ++i)
    y.push_back(static_cast<float>(std::exp(x[i] - most) / total));
  return y;
}

void check_same(const float* found, const Values& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i);
    if (std::isnan(expected[i]))
      REQUIRE(std::isnan(found[i]));
    else
      REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-30));
  }
}

// Rows of every kind: masked at the beginning, everywhere but one element, everywhere, and with one element of
// infinity or NaN, alone or in a masked row.
Values special_rows(test::Random& random, std::int64_t rows, std::int64_t cols) {
  Values x;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t kind = r % 7, at = random.integer(0, cols - 1);
    for (std::int64_t c = 0; c < cols; ++c) {
      const bool masked = kind == 1   ? c < at
                          : kind == 6 ? random.integer(0, 1) == 1
                                      : (kind == 2 && c != at) || kind == 3;
      x.push_back(masked ? -INFINITY : static_cast<float>(random.uniform(-4, 4)));
    }
    float& chosen = x[static_cast<std::size_t>(r * cols + at)];
    if (kind == 4) chosen = NAN;
    if (kind == 5 || (kind == 6 && r % 2)) chosen = INFINITY;
  }
  return x;
}

// Runs on every device, and in the interpreter.
template <class K> void check_softmax(const K& kernel, std::int64_t tile) {
  test::Random random;
  const std::int64_t rows = 14, cols = random.integer(1, 70), width = tile ? tile : 16;
  const Config config = {BM = random.integer(1, 4), BN = width};
  INFO("seed " << random.seed << ", " << rows << " x " << cols << ", " << config.to_string());
  const Values values = special_rows(random, rows, cols);
  auto x = Tensor<float, 2>::empty({rows, cols}), y = Tensor<float, 2>::empty({rows, cols});
  std::copy(values.begin(), values.end(), x.data());
  auto check = [&](const float* result) {
    for (std::int64_t r = 0; r < rows; ++r) {
      INFO("row " << r);
      check_same(result + r * cols, exact_softmax(values.data() + r * cols, cols));
    }
  };
  kernel.interpret(config, x, y);
  check(y.data());
  for (const char* name : {"cpu", "emulated:sm_80", "emulated:sm_90a"}) {
    INFO(name);
    const Device device = Device::parse(name);
    Stream stream(device);
    auto on_device = x.to(device), result = y.to(device);
    Config of_device = config;
    if (!device.is_cpu()) of_device = {BM = 2, BN = width < 4 ? 4 : width, num_warps = 1};
    kernel.launch(stream, of_device, on_device, result);
    stream.synchronize();
    check(result.to(Device::cpu()).data());
  }
}

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(std::string(KILN_TESTS_DIR) + "/" + file).rdbuf();
  return text.str();
}
// The kernel that begins at `start`, up to the end of its lambda.
std::string kernel_at(const std::string& text, const std::string& start) {
  const std::size_t begin = text.find(start);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n});\n", begin) - begin);
}

} // namespace

TEST_CASE("the softmax of the page on the language handles -infinity, infinity and NaN") {
  check_softmax(page::rows_softmax, GENERATE(1, 2, 16));
}
TEST_CASE("the softmax of the samples handles -infinity, infinity and NaN") {
  check_softmax(sample::softmax, GENERATE(1, 2, 16));
}

TEST_CASE("attention of scores that are -infinity, infinity and NaN") {
  constexpr std::int64_t width = 16;
  test::Random random;
  const std::int64_t tokens = random.integer(20, 60);
  const bool causal = GENERATE(false, true);
  INFO("seed " << random.seed << ", " << tokens << " tokens");
  auto q = Tensor<float, 3>::zeros({1, tokens, width}), k = Tensor<float, 3>::zeros({1, tokens, width}),
       v = Tensor<float, 3>::zeros({1, tokens, width}), o = Tensor<float, 3>::zeros({1, tokens, width});
  // The score of a query and a key is the key's first element, times 1.
  Values scores = special_rows(random, 7, tokens);
  const std::int64_t kind = GENERATE(0, 1, 2, 3, 4, 5);
  for (std::int64_t t = 0; t < tokens; ++t) {
    q.data()[t * width] = 1;
    k.data()[t * width] = scores[static_cast<std::size_t>(kind * tokens + t)];
    v.data()[t * width + 3] = static_cast<float>(random.uniform(-1, 1));
  }
  const auto& kernel = benchmarks::attention_kernel<float>(causal);
  using benchmarks::KEYS, benchmarks::QUERIES, benchmarks::WIDTH;
  for (const char* name : {"cpu", "emulated:sm_90a"}) {
    INFO(name << ", kind " << kind);
    const Device device = Device::parse(name);
    Stream stream(device);
    auto queries = q.to(device), keys = k.to(device), values = v.to(device), result = o.to(device);
    kernel.launch(stream, {QUERIES = 16, KEYS = 16, WIDTH = width}, queries, keys, values, result, 1.0f);
    stream.synchronize();
    auto host = result.to(Device::cpu());
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t seen = causal ? t + 1 : tokens;
      Values weights = exact_softmax(scores.data() + kind * tokens, seen);
      double sum = 0;
      for (std::int64_t j = 0; j < seen; ++j)
        sum += double{weights[static_cast<std::size_t>(j)]} * v.data()[j * width + 3];
      INFO("query " << t);
      const float found = host.data()[t * width + 3];
      if (std::isnan(sum))
        REQUIRE(std::isnan(found));
      else
        REQUIRE(found == Approx(sum).epsilon(1e-3).margin(1e-3));
    }
  }
}

TEST_CASE("the page on the language and the samples contain the softmax that is tested") {
  const std::string tested = text_of("dsl/test_documented_softmax.cpp");
  const std::string of_page = kernel_at(text_of("../dsl/LANGUAGE.md"), "const auto rows_softmax =");
  const std::string of_sample = kernel_at(text_of("../samples/03_softmax.cpp"), "const auto softmax =");
  CHECK(tested.find(of_page) != std::string::npos);
  CHECK(tested.find(of_sample) != std::string::npos);
}
