// Compares products of groups of rows, and their gradients, with double precision.
#include "strided.h"

#include <kiln/kiln.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// Sums of up to 300 products are in the dtype of the result or in f32.
template <class T> constexpr double bound = 4 * tolerance<T>();

int rounds(int most) { return test_device().is_emulated() ? 2 : most; }

// Offsets of random groups, some of them empty, one perhaps large. Some rows may belong to none.
template <class I> struct Groups {
  std::int64_t count, rows;
  std::vector<std::int64_t> begins;
  Strided<I, 1> offsets;

  Groups(Random& r, std::int64_t most_rows) : Groups(r, r.integer(1, 9), r.integer(0, most_rows)) {}
  Groups(Random& r, std::int64_t groups, std::int64_t all)
      : count(groups), rows(all), offsets(r, {groups + 1}) {
    const auto kind = r.integer(0, 3);
    for (std::int64_t g = 0; g <= count; ++g)
      begins.push_back(kind == 0 ? (g > count / 2 ? rows : 0) : r.integer(0, rows)); // one group has all rows
    std::sort(begins.begin(), begins.end());
    if (kind != 1) begins.front() = 0, begins.back() = rows;
    offsets.fill([&](auto i) { return begins[static_cast<std::size_t>(i)]; });
  }
  std::int64_t begin(std::int64_t g) const { return begins[static_cast<std::size_t>(g)]; }
  // The group of a row, or -1.
  std::int64_t of(std::int64_t row) const {
    if (row < begin(0) || row >= begin(count)) return -1;
    return std::upper_bound(begins.begin(), begins.end(), row) - begins.begin() - 1;
  }
};

constexpr double unwritten = 50;

template <class A, class B>
double product(const A& a, const B& b, std::int64_t g, std::int64_t i, std::int64_t j) {
  double s = 0;
  for (std::int64_t k = 0; k < a.view.cols(); ++k)
    s += a(i, k) * b(g, k, j);
  return s;
}

} // namespace

TEMPLATE_TEST_CASE("each group of rows is multiplied by its matrix", "", float, double, bf16, f16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(8); ++round) {
    const Groups<std::int32_t> groups(random, test_device().is_emulated() ? 60 : 300);
    const std::int64_t k = random.integer(round == 0 ? 0 : 1, 90), n = random.integer(1, 150);
    Strided<T, 2> a(random, {groups.rows, k}, uniform(random, -1, 1));
    Strided<T, 3> b(random, {groups.count, k, n}, uniform(random, -1, 1));
    Strided<T, 2> c(random, {groups.rows, n}, [] { return unwritten; });
    INFO(groups.count << " groups, k " << k << ", a " << a.layout() << ", b " << b.layout());
    on_test_device([](Stream& s, auto a, auto b, auto o, auto c) { ops::grouped_matmul(s, a, b, o, c); },
                   a.view, b.view, groups.offsets.view, c.view);
    c.check(bound<T>, [&](auto i, auto j) {
      const auto g = groups.of(i);
      return g < 0 ? unwritten : product(a, b, g, i, j);
    });
  }
}

TEMPLATE_TEST_CASE("a grouped product has the epilogue of matmul with a bias for each group", "", float,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(4); ++round) {
    const Groups<std::int64_t> groups(random, test_device().is_emulated() ? 50 : 200);
    const std::int64_t k = random.integer(1, 90), n = random.integer(1, 100);
    Strided<T, 2> a(random, {groups.rows, k}, uniform(random, -1, 1));
    Strided<T, 3> b(random, {groups.count, k, n}, uniform(random, -1, 1));
    Strided<T, 2> bias(random, {groups.count, n}, uniform(random, -1, 1));
    Strided<float, 2> times(random, {groups.rows, n}, uniform(random, -1, 1)),
        c(random, {groups.rows, n}, uniform(random, -1, 1)), residual(random, {groups.rows, n});
    residual.fill(uniform(random, -1, 1));
    std::vector<double> before;
    c.each([&](auto i, auto j) { before.push_back(c(i, j)); });
    on_test_device(
        [](Stream& s, auto a, auto b, auto o, auto bias, auto times, auto residual, auto c) {
          ops::grouped_matmul(s, a, b, o, c,
                              {.activation = ops::Activation::silu,
                               .alpha = 0.5,
                               .beta = -2,
                               .bias = bias,
                               .times = times,
                               .residual = residual});
        },
        a.view, b.view, groups.offsets.view, bias.view, times.view, residual.view, c.view);
    c.check(
        3e-5,
        [&](auto i, auto j) {
          const double old = before[static_cast<std::size_t>(i * n + j)];
          const auto g = groups.of(i);
          if (g < 0) return old;
          const double x = 0.5 * product(a, b, g, i, j) + bias(g, j);
          return x / (1 + std::exp(-x)) * times(i, j) + residual(i, j) - 2 * old;
        },
        4);
  }
}

TEMPLATE_TEST_CASE("the gradient of a grouped product with respect to the matrices", "", float, double,
                   bf16) {
  using T = TestType;
  Random random;
  KILN_SEED(random);
  for (int round = 0; round < rounds(6); ++round) {
    const Groups<std::int32_t> groups(random, test_device().is_emulated() ? 60 : 300);
    const std::int64_t k = random.integer(1, 90), n = random.integer(1, 100);
    Strided<T, 2> a(random, {groups.rows, k}, uniform(random, -1, 1)),
        dc(random, {groups.rows, n}, uniform(random, -1, 1));
    using D = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Strided<D, 3> db(random, {groups.count, k, n}, [] { return 3; });
    const double beta = random.integer(0, 1) ? 0.5 : 0, alpha = random.integer(0, 1) ? -2 : 1;
    INFO(groups.count << " groups, a " << a.layout() << ", dc " << dc.layout());
    on_test_device(
        [&](Stream& s, auto a, auto dc, auto o, auto db) {
          ops::grouped_matmul_backward_b(s, a, dc, o, db, {.alpha = alpha, .beta = beta});
        },
        a.view, dc.view, groups.offsets.view, db.view);
    db.check(
        bound<D>,
        [&](auto g, auto p, auto j) {
          double s = 0;
          for (std::int64_t i = groups.begin(g); i < groups.begin(g + 1); ++i)
            s += a(i, p) * dc(i, j);
          return alpha * s + beta * 3;
        },
        10);
  }
}

TEST_CASE("the gradients of a grouped product agree with finite differences") {
  Random random;
  KILN_SEED(random);
  const Groups<std::int32_t> groups(random, 3, 20);
  const std::int64_t k = 7, n = 5;
  Strided<double, 2> a(random, {groups.rows, k}, uniform(random, -1, 1)), da(random, {groups.rows, k}),
      dc(random, {groups.rows, n}, uniform(random, -1, 1)), c(random, {groups.rows, n});
  Strided<double, 3> b(random, {groups.count, k, n}, uniform(random, -1, 1)),
      db(random, {groups.count, k, n}), dbias(random, {groups.count, 1, n});
  da.fill([] { return 0; });
  std::vector<double> one(1, 1.0);
  const TensorView<const double, 2> ones(one.data(), {groups.rows, 1}, {0, 0});
  // The loss is the sum of dc * c.
  const auto loss = [&] {
    c.fill([] { return 0; });
    on_test_device([](Stream& s, auto a, auto b, auto o, auto c) { ops::grouped_matmul(s, a, b, o, c); },
                   a.view, b.view, groups.offsets.view, c.view);
    double sum = 0;
    c.each([&](auto i, auto j) { sum += groups.of(i) < 0 ? 0 : dc(i, j) * c(i, j); });
    return sum;
  };
  on_test_device(
      [&](Stream& s, auto a, auto b, auto o, auto dc, auto da, auto db, auto dbias, auto ones) {
        ops::grouped_matmul(s, dc, b.permute({0, 2, 1}), o, da);
        ops::grouped_matmul_backward_b(s, a, dc, o, db);
        ops::grouped_matmul_backward_b(s, ones, dc, o, dbias);
      },
      a.view, b.view, groups.offsets.view, dc.view, da.view, db.view, dbias.view, ones);
  const auto slope = [&](double& x) {
    const double h = 1e-3, old = x;
    x = old + h;
    const double above = loss();
    x = old - h;
    const double below = loss();
    x = old;
    return (above - below) / (2 * h);
  };
  for (int i = 0; i < (test_device().is_emulated() ? 2 : 20); ++i) {
    const auto g = random.integer(0, groups.count - 1), p = random.integer(0, k - 1),
               j = random.integer(0, n - 1), row = random.integer(0, groups.rows - 1);
    CHECK(db(g, p, j) == Approx(slope(b.view(g, p, j))).margin(1e-8));
    CHECK(da(row, p) == Approx(slope(a.view(row, p))).margin(1e-8));
  }
  dbias.check(1e-12, [&](auto g, auto, auto j) {
    double sum = 0;
    for (std::int64_t i = groups.begin(g); i < groups.begin(g + 1); ++i)
      sum += dc(i, j);
    return sum;
  });
}

TEST_CASE("wrong arguments of grouped products are errors, and nothing is written") {
  const std::int64_t rows = 6, k = 3, n = 4;
  auto a = Tensor<float, 2>::zeros({rows, k}), c = Tensor<float, 2>::zeros({rows, n}),
       bias = Tensor<float, 2>::zeros({3, n});
  auto b = Tensor<float, 3>::zeros({2, k, n});
  auto offsets = Tensor<int, 1>::zeros({3}), four = Tensor<int, 1>::zeros({4});
  auto floats = Tensor<float, 1>::zeros({3});
  Stream stream;
  c.fill(7);
  const auto error_of = [&](const auto& call) {
    std::string text = "no error";
    try {
      call();
    } catch (const UserError& e) {
      text = e.what();
    }
    stream.synchronize();
    for (std::int64_t i = 0; i < rows * n; ++i)
      REQUIRE(c.data()[i] == 7);
    return text.substr(text.find("ops::") == text.npos ? 0 : text.find("ops::"));
  };
  const std::string ends = "; pass tensors whose extents match", op = "ops::grouped_matmul: ";
  CHECK(error_of([&] { ops::grouped_matmul(stream, a, b, four, c); }) ==
        op + "offsets' size and one more than the matrices of b differ: 4 != 3" + ends);
  CHECK(error_of([&] { ops::grouped_matmul(stream, a, b, floats, c); }) ==
        op + "offsets are of neither i32 nor i64; pass integers of one of these dtypes");
  CHECK(error_of([&] { ops::grouped_matmul(stream, c, b, offsets, c); }) ==
        op + "a's columns and b's rows differ: 4 != 3" + ends);
  CHECK(error_of([&] { ops::grouped_matmul(stream, a, a, offsets, c); }) ==
        op + "b has 2 axes and needs 3; reshape it");
  CHECK(error_of([&] { ops::grouped_matmul(stream, a, b, offsets, c, {.bias = bias}); }) ==
        op + "bias's rows and b's matrices differ: 3 != 2" + ends);
  const auto narrow = c.view().slice(1, 0, 3);
  CHECK(error_of([&] { ops::grouped_matmul(stream, narrow, b, offsets, c); }) ==
        op + "c overlaps a, which is read while it is written; give it memory of its own");
  CHECK(error_of([&] { ops::grouped_matmul_backward_b(stream, a, c, four, b); }) ==
        "ops::grouped_matmul_backward_b: offsets' size and one more than the matrices of db differ: 4 != 3" +
            ends);
  CHECK(error_of([&] { ops::grouped_matmul_backward_b(stream, c, a, offsets, b); }) ==
        "ops::grouped_matmul_backward_b: a's columns and db's rows differ: 4 != 3" + ends);
}

TEST_CASE("offsets that decrease or leave the rows access nothing outside of the tensors") {
  Random random;
  KILN_SEED(random);
  const std::int64_t rows = random.integer(1, 60), k = random.integer(1, 40), n = random.integer(1, 40),
                     groups = random.integer(1, 6);
  Strided<float, 2> a(random, {rows, k}, uniform(random, -1, 1)), c(random, {rows, n});
  Strided<float, 3> b(random, {groups, k, n}, uniform(random, -1, 1)), db(random, {groups, k, n});
  Strided<std::int64_t, 1> offsets(random, {groups + 1}, integers(random, -200, 200));
  offsets.view(random.integer(0, groups)) = random.integer(0, 1) ? INT64_MIN : INT64_MAX;
  sort_if_emulated(offsets);
  on_test_device([](Stream& s, auto a, auto b, auto o, auto c) { ops::grouped_matmul(s, a, b, o, c); },
                 a.view, b.view, offsets.view, c.view);
  on_test_device(
      [](Stream& s, auto a, auto c, auto o, auto db) { ops::grouped_matmul_backward_b(s, a, c, o, db); },
      a.view, c.view, offsets.view, db.view);
  c.check_gaps();
  db.check_gaps();
}
