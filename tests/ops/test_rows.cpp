// Compares softmax, layernorm and rmsnorm with double precision (dtypes, strides, rows that fit a tile and
// wider ones) and with the interpreter.
#include "left_out.h"
#include "op_test.h"

#include <kiln/ops/detail/kernels.h>
#include <kiln/ops/dims.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// Draws widths for which the whole-row kernels are used, and widths for which the looped ones are.
std::int64_t random_width(Random& random, int i) {
  return i % 6 == 5 && test_device().is_cpu() ? random.integer(131073, 140000)
         : i % 3 == 2                         ? random.integer(16385, 40000)
         : i % 3 == 1                         ? random.integer(300, 3000)
         : i % 2 == 0                         ? random.integer(1, 17)
                                              : random.integer(1, 70);
}

// Draws many rows if they are narrow, or if their matrix is transposed, because these share vectors and
// lines.
std::int64_t random_height(Random& random, std::int64_t width, Lie lie) {
  return width < 20                               ? random.integer(1, 1500)
         : lie == Lie::transposed && width < 3000 ? random.integer(1, 80)
                                                  : random.integer(1, 9);
}

template <class T> struct RowStatistics {
  double largest = -INFINITY, largest_magnitude = 0, exponentials = 0, mean = 0, variance = 0, squares = 0;
  RowStatistics(const Matrix<T>& x, std::int64_t r) {
    auto n = static_cast<double>(x.cols());
    for (std::int64_t c = 0; c < x.cols(); ++c) {
      auto v = wide(x(r, c));
      largest = std::max(largest, v), largest_magnitude = std::max(largest_magnitude, std::fabs(v));
      mean += v / n, squares += v * v / n;
    }
    for (std::int64_t c = 0; c < x.cols(); ++c) {
      auto v = wide(x(r, c));
      exponentials += std::exp(v - largest), variance += (v - mean) * (v - mean) / n;
    }
  }
};
template <class T> std::vector<RowStatistics<T>> statistics(const Matrix<T>& x) {
  std::vector<RowStatistics<T>> rows;
  for (std::int64_t r = 0; r < x.rows(); ++r)
    rows.emplace_back(x, r);
  return rows;
}

// The tolerance of layernorm. The rounding errors of the mean and of the subtraction are half an ulp of the
// largest element each. The division magnifies them if the elements of a row are nearly equal.
template <class T>
double layernorm_tolerance(const Matrix<T>& x, const std::vector<RowStatistics<T>>& rows, double eps,
                           double size_of_result) {
  double unit = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24, worst = 0;
  for (const auto& s : rows)
    worst = std::max(worst, s.largest_magnitude / std::sqrt(s.variance + eps));
  return tolerance<T>(x.cols()) + 2 * unit * worst / size_of_result;
}

} // namespace

TEMPLATE_TEST_CASE("softmax of rows of any width", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 12; ++i) {
    if (left_out(random)) continue;
    std::int64_t cols = random_width(random, i);
    Lie of_x = all_lies[random.integer(0, 3)], of_y = all_lies[random.integer(0, 3)];
    std::int64_t rows = random_height(random, cols, of_x);
    INFO(rows << " x " << cols << ", layouts " << int(of_x) << int(of_y));
    Matrix<TestType> x(rows, cols, of_x), y(rows, cols, of_y);
    x.fill(random, -9, 9), y.poison();
    on_test_device([&](Stream& s, auto... v) { ops::softmax(s, v...); }, x.view(), y.view());
    auto stats = statistics(x);
    double error = relative_error(y, [&](auto r, auto c) {
      const auto& s = stats[static_cast<std::size_t>(r)];
      return std::exp(wide(x(r, c)) - s.largest) / s.exponentials;
    });
    CHECK(error <= tolerance<TestType>(cols));
    CHECK(y.surroundings_untouched());
  }
}

TEST_CASE("softmax in place, with elements of -infinity and with large ones") {
  Random random;
  KILN_SEED(random);
  for (std::int64_t cols : {std::int64_t{50}, std::int64_t{20000}}) {
    Matrix<float> x(3, cols), y(3, cols);
    x.fill(random, 1e4, 1e4 + 5);
    for (std::int64_t c = 0; c < cols * 9 / 10; ++c)
      x(1, c) = -INFINITY;
    for (std::int64_t c = 0; c < cols; ++c)
      x(2, c) = -INFINITY;
    auto stats = statistics(x);
    Matrix<float> before(3, cols);
    for (std::int64_t r = 0; r < 3; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        before(r, c) = x(r, c);
    on_test_device([&](Stream& s, auto... v) { ops::softmax(s, v...); }, x.read_only(), x.view());
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t r = 0; r < 2; ++r) {
        double expected = std::exp(wide(before(r, c)) - stats[static_cast<std::size_t>(r)].largest) /
                          stats[static_cast<std::size_t>(r)].exponentials;
        REQUIRE(x(r, c) == Approx(expected).epsilon(1e-5));
      }
      REQUIRE(std::isnan(x(2, c)));
    }
  }
}

TEST_CASE("softmax of a row with NaN or infinity is NaN, and other rows do not change") {
  Random random;
  KILN_SEED(random);
  for (std::int64_t cols : {std::int64_t{50}, std::int64_t{20000}}) {
    Matrix<float> x(4, cols), y(4, cols);
    x.fill(random, -3, 3), y.poison();
    x(0, random.integer(0, cols - 1)) = NAN;
    x(1, random.integer(0, cols - 1)) = INFINITY;
    for (std::int64_t c = 0; c < cols; ++c)
      x(2, c) = c == cols / 2 ? NAN : -INFINITY;
    on_test_device([&](Stream& s, auto... v) { ops::softmax(s, v...); }, x.view(), y.view());
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t r = 0; r < 3; ++r)
        REQUIRE(std::isnan(y(r, c)));
      sum += y(3, c);
    }
    CHECK(sum == Approx(1).epsilon(1e-4));
  }
}

TEMPLATE_TEST_CASE("layernorm of rows of any width", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 12; ++i) {
    if (left_out(random)) continue;
    std::int64_t cols = random_width(random, i) + 1;
    Lie of_x = all_lies[random.integer(0, 3)], of_y = all_lies[random.integer(0, 3)];
    std::int64_t rows = random_height(random, cols, of_x);
    INFO(rows << " x " << cols << ", layouts " << int(of_x) << int(of_y));
    Matrix<TestType> x(rows, cols, of_x), y(rows, cols, of_y), gamma(1, cols), beta(1, cols);
    x.fill(random, 2, 5), y.poison(), gamma.fill(random), beta.fill(random);
    on_test_device([&](Stream& s, auto... v) { ops::layernorm(s, v..., {.eps = 1e-3}); }, x.view(),
                   gamma.view().select(0, 0), beta.view().select(0, 0), y.view());
    auto stats = statistics(x);
    auto expected = [&](auto r, auto c) {
      const auto& s = stats[static_cast<std::size_t>(r)];
      return (wide(x(r, c)) - s.mean) / std::sqrt(s.variance + 1e-3) * wide(gamma(0, c)) + wide(beta(0, c));
    };
    CHECK(relative_error(y, expected) <= layernorm_tolerance(x, stats, 1e-3, root_mean_square(y, expected)));
    CHECK(y.surroundings_untouched());
  }
}

TEMPLATE_TEST_CASE("rmsnorm of rows of any width", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  for (int i = 0; i < 12; ++i) {
    if (left_out(random)) continue;
    std::int64_t cols = random_width(random, i);
    Lie of_x = all_lies[random.integer(0, 3)], of_y = all_lies[random.integer(0, 3)];
    std::int64_t rows = random_height(random, cols, of_x);
    INFO(rows << " x " << cols << ", layouts " << int(of_x) << int(of_y));
    Matrix<TestType> x(rows, cols, of_x), y(rows, cols, of_y), gamma(1, cols);
    x.fill(random), y.poison(), gamma.fill(random);
    on_test_device([&](Stream& s, auto... v) { ops::rmsnorm(s, v...); }, x.view(), gamma.view().select(0, 0),
                   y.view());
    auto stats = statistics(x);
    double error = relative_error(y, [&](auto r, auto c) {
      return wide(x(r, c)) / std::sqrt(stats[static_cast<std::size_t>(r)].squares + 1e-5) * wide(gamma(0, c));
    });
    CHECK(error <= tolerance<TestType>(cols));
    CHECK(y.surroundings_untouched());
  }
}

TEMPLATE_TEST_CASE("the kernels on rows agree with the interpreter", "", float, double, bf16, f16) {
  Random random;
  KILN_SEED(random);
  using T = TestType;
  for (int i = 0; i < 3; ++i) {
    std::int64_t rows = random.integer(1, 20), cols = random.integer(1, 100);
    Config whole = {ops::BM = random.integer(1, 8), ops::BN = random.integer(cols, 128)};
    Config parts = {ops::BM = random.integer(1, 8), ops::BN = random.integer(1, 40)};
    INFO(rows << " x " << cols << ", " << whole.to_string() << " and " << parts.to_string());
    Matrix<T> x(rows, cols), gamma(1, cols), beta(1, cols), y(rows, cols), interpreted(rows, cols);
    x.fill(random, -4, 4), gamma.fill(random), beta.fill(random);
    auto g = gamma.read_only().select(0, 0), b = beta.read_only().select(0, 0);
    auto agree = [&](const char* name) {
      INFO(name);
      CHECK(relative_error(y, [&](auto r, auto c) { return wide(interpreted(r, c)); }) <= tolerance<T>(cols));
      y.poison(), interpreted.poison();
    };
    using namespace ops::detail;
    // Runs a kernel on the device and in the interpreter.
    auto compare = [&](const char* name, const OpKernel& kernel, const Config& config, std::uint32_t options,
                       bool has_eps, auto... in) {
      const OpVariant variant{std::is_same_v<T, double> ? DType::F64 : DType::F32, options};
      const auto with = [&](const auto& run, const ops::Output& out, const auto&... inputs) {
        const ops::Input arrays[] = {inputs...};
        OpArguments list{};
        for (const ops::Input& a : arrays)
          list.add(a);
        list.add(out);
        list.add_if(has_eps, {variant.compute, 0.25});
        run(list);
      };
      on_test_device(
          [&](Stream& s, auto... v) {
            with([&](const OpArguments& list) { kernel.launch(s, config, variant, list); }, v...);
          },
          y.view(), in...);
      with([&](const OpArguments& list) { kernel.interpret(config, variant, list); }, interpreted.view(),
           in...);
      agree(name);
    };
    y.poison(), interpreted.poison();
    const std::uint32_t layernorm = norm_centred | norm_gamma | norm_beta;
    compare("softmax", softmax_kernel, whole, 0, false, x.read_only());
    compare("softmax_looped", softmax_looped_kernel, parts, 0, false, x.read_only());
    compare("layernorm", layernorm_kernel, whole, layernorm, true, x.read_only(), g, b);
    compare("layernorm_looped", layernorm_looped_kernel, parts, layernorm, true, x.read_only(), g, b);
    compare("rmsnorm", rmsnorm_kernel, whole, norm_gamma, true, x.read_only(), g);
    compare("rmsnorm_looped", rmsnorm_looped_kernel, parts, norm_gamma, true, x.read_only(), g);
  }
}

TEST_CASE("the whole-row kernels report a tile that does not cover the row") {
  Stream stream;
  Matrix<float> x(2, 33), y(2, 33);
  CHECK_THROWS_WITH(ops::detail::softmax_kernel.launch(stream, {ops::BM = 1, ops::BN = 32}, {},
                                                       {ops::Input(x.read_only()), ops::Output(y.view())}),
                    Catch::Contains("x's columns and BN, which must cover them") && Catch::Contains("33"));
}
