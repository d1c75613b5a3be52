// Tests assign: values, broadcasting, dtypes, aliasing, errors, and the cost of a warm call.
#include "allocation_count.h"
#include "jit/cpu/random_view.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/error.h>
#include <kiln/dsl/reduce.h>
#include <kiln/jit/runtime/assign/assign.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

using namespace kiln;
using kiln::test::RandomArray;

namespace {

template <class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

std::string after_line(const std::string& message) { return message.substr(message.find(": ") + 2); }

} // namespace

TEST_CASE("assign computes a fused expression with broadcasting") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  auto draw = [&] { return normal(random); };
  Stream stream;
  for (auto [m, n] : {std::pair{1, 1}, {7, 5}, {64, 1000}, {300, 129}, {3, 40000}}) {
    std::vector<std::int64_t> extents{m, n};
    RandomArray<float, 2> x(random, extents, true, draw), residual(random, extents, true, draw);
    RandomArray<float, 1> bias(random, {n}, true, draw);
    RandomArray<float, 2> column(random, {m, 1}, true, draw);
    auto out = Tensor<float, 2>::zeros({m, n});
    float scale = normal(random);
    assign(stream, out, relu(x.view * scale + bias.view) * column.view + residual.view);
    stream.synchronize();
    bool equal = true;
    RandomArray<float, 2>::each(extents, [&](const auto& i) {
      float sum = x[i] * scale + bias[i];
      float product = std::max(sum, 0.f) * column[i];
      equal &= out.view()(i[0], i[1]) == product + residual[i];
    });
    CHECK(equal);
  }
}

TEST_CASE("every function of whole tensors computes what the C library does") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> positive(0.1f, 4.f);
  constexpr int n = 333;
  std::vector<float> x(n), y(n), out(n);
  for (int i = 0; i < n; ++i)
    x[i] = positive(random), y[i] = positive(random);
  TensorView a(x), b(y), o(out);
  Stream stream;
  auto check = [&](const char* what, auto expression, auto reference) {
    CAPTURE(what);
    std::fill(out.begin(), out.end(), NAN);
    assign(stream, o, expression);
    stream.synchronize();
    double worst = 0;
    for (int i = 0; i < n; ++i) {
      double expected = reference(double(x[i]), double(y[i]));
      double error = std::abs(out[i] - expected) / std::max(1.0, std::abs(expected));
      // The comparison is false for NaN, which thus becomes the worst error.
      worst = error <= worst ? worst : error;
    }
    CHECK(worst < 2e-6);
  };
#define CHECK_UNARY(NAME) check(#NAME, NAME(a), [](double v, double) { return std::NAME(v); });
  CHECK_UNARY(exp)
  CHECK_UNARY(exp2)
  CHECK_UNARY(expm1)
  CHECK_UNARY(log)
  CHECK_UNARY(log2)
  CHECK_UNARY(log1p)
  CHECK_UNARY(sin)
  CHECK_UNARY(cos)
  CHECK_UNARY(tanh)
  CHECK_UNARY(erf)
  CHECK_UNARY(sqrt)
  CHECK_UNARY(floor)
  CHECK_UNARY(ceil)
  CHECK_UNARY(trunc)
  CHECK_UNARY(abs)
#undef CHECK_UNARY
  check("round", round(a), [](double v, double) { return std::nearbyint(v); });
  check("sigmoid", sigmoid(a), [](double v, double) { return 1 / (1 + std::exp(-v)); });
  check("silu", silu(a), [](double v, double) { return v / (1 + std::exp(-v)); });
  check("gelu", gelu(a), [](double v, double) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); });
  check("rsqrt", rsqrt(a), [](double v, double) { return 1 / std::sqrt(v); });
  check("pow", pow(a, b), [](double v, double w) { return std::pow(v, w); });
  check("atan2", atan2(a, b), [](double v, double w) { return std::atan2(v, w); });
  check("fma", fma(a, b, 1), [](double v, double w) { return v * w + 1; });
  check("clamp", clamp(a, 1, 2.5), [](double v, double) { return std::clamp(v, 1.0, 2.5); });
  check("min", min(a, b), [](double v, double w) { return std::min(v, w); });
  check("max", maximum(a, b), [](double v, double w) { return std::max(v, w); });
  check("minus", -a - b / 2 + 3 % a, [](double v, double w) { return -v - w / 2 + std::fmod(3, v); });
  check("where", where((a > b) & !(a < 1), a, 2 * b),
        [](double v, double w) { return v > w && v >= 1 ? v : 2 * w; });
  check("bitcast", bitcast<float>(bitcast<std::uint32_t>(a) & 0x7fffffffu),
        [](double v, double) { return v; });
  check("map", map([](auto s, auto t, auto k) { return s * sigmoid(t) + k; }, a, b, 3),
        [](double v, double w) { return v / (1 + std::exp(-w)) + 3; });
  check("numbers alone", cast<float>(where(a > 100, 1, 2)), [](double, double) { return 2.0; });
}

TEST_CASE("whole-tensor expressions promote and convert as the language does") {
  Stream stream;
  std::vector<std::uint8_t> bytes{0, 1, 100, 200, 255};
  std::vector<std::int32_t> ints{-7, -1, 0, 5, 1 << 30};
  std::vector<std::int64_t> longs(5);
  std::vector<float> floats{-1e20f, -1.5f, NAN, 2.9f, 1e20f};
  Tensor<bool, 1> flags = Tensor<bool, 1>::zeros({5});
  TensorView u(bytes);
  TensorView i(ints);
  TensorView l(longs);
  TensorView f(floats);

  assign(stream, u, u + u); // wraps in u8
  stream.synchronize();
  CHECK(bytes == std::vector<std::uint8_t>{0, 2, 200, 144, 254});
  assign(stream, l, u + i); // u8 + i32 is i32, which can be assigned to a wider dtype of its class
  stream.synchronize();
  CHECK(longs == std::vector<std::int64_t>{-7, 1, 200, 149, (1 << 30) + 254});
  assign(stream, i, cast<std::int32_t>(f)); // truncates, saturates, NaN is 0
  stream.synchronize();
  CHECK(ints == std::vector<std::int32_t>{INT32_MIN, -1, 0, 2, INT32_MAX});
  assign(stream, i, (i >> 30) % 7 + (cast<std::int32_t>(u) ^ 1));
  stream.synchronize();
  CHECK(ints == std::vector<std::int32_t>{-2 + 1, -1 + 3, 201, 145, 1 + 255});
  assign(stream, flags, (f > 0) | isnan(f));
  stream.synchronize();
  CHECK((!flags.view()(0) && !flags.view()(1) && flags.view()(2) && flags.view()(3) && flags.view()(4)));
  assign(stream, f, 7);
  stream.synchronize();
  CHECK(floats == std::vector<float>(5, 7.f));
  auto half = Tensor<bf16, 1>::zeros({5});
  assign(stream, half, cast<bf16>(f) * 1.1); // 1.1 becomes a bf16
  stream.synchronize();
  CHECK(float(half.view()(3)) == float(bf16(7.f * float(bf16(1.1f)))));
}

TEST_CASE("in place, overlapping and interleaved operands read the values from before") {
  auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Stream stream;
  constexpr std::int64_t n = 50000;
  std::vector<float> x(n);
  for (auto& v : x)
    v = static_cast<float>(random() % 1000);
  auto before = x;
  TensorView v(x);

  assign(stream, v, v * 2 + 1);
  stream.synchronize();
  for (std::size_t i = 0; i < n; ++i)
    REQUIRE(x[i] == before[i] * 2 + 1);

  x = before; // shifted by one: needs a temporary
  assign(stream, v.slice(0, 1, n), v.slice(0, 0, n - 1) + 0.5f);
  stream.synchronize();
  REQUIRE(x[0] == before[0]);
  for (std::size_t i = 1; i < n; ++i)
    REQUIRE(x[i] == before[i - 1] + 0.5f);

  x = before; // backwards
  TensorView reversed(x.data() + n - 1, {n}, {-1});
  assign(stream, v, reversed);
  stream.synchronize();
  for (std::size_t i = 0; i < n; ++i)
    REQUIRE(x[i] == before[n - 1 - i]);

  x = before; // a row added to all rows of its own matrix
  TensorView matrix(x, {200, 250});
  assign(stream, matrix, matrix - matrix.slice(0, 3, 4));
  stream.synchronize();
  for (std::size_t i = 0; i < n; ++i)
    REQUIRE(x[i] == before[i] - before[750 + i % 250]);

  x = before; // transposed in place
  TensorView square(x.data(), {200, 200});
  assign(stream, square, square.transpose());
  stream.synchronize();
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t j = 0; j < 200; ++j)
      REQUIRE(x[i * 200 + j] == before[j * 200 + i]);

  x = before; // two halves of each row: no common element
  assign(stream, matrix.slice(1, 0, 125), matrix.slice(1, 125, 250) * 2);
  stream.synchronize();
  for (std::size_t i = 0; i < n; ++i)
    REQUIRE(x[i] == (i % 250 < 125 ? before[i + 125] * 2 : before[i]));
}

TEST_CASE("assign accepts empty tensors, single elements and rank 0") {
  Stream stream;
  float number = 3, result = 0;
  TensorView<float, 0> zero(&number), to(&result);
  assign(stream, to, zero * 2);
  stream.synchronize();
  CHECK(result == 6);
  std::vector<float> x{1, 2, 3};
  assign(stream, TensorView(x), zero + TensorView(x));
  stream.synchronize();
  CHECK(x == std::vector<float>{4, 5, 6});
  TensorView<float, 2> nothing;
  assign(stream, nothing, nothing + 1);
  TensorView empty(x.data(), {0, 3});
  assign(stream, empty, empty + TensorView(x));
  assign(stream, TensorView(x.data(), {2, 0, 3}, {0, 3, 1}), empty + TensorView(x));
  stream.synchronize();
  CHECK(x == std::vector<float>{4, 5, 6});
  std::vector<float> eight(256);
  TensorView all(eight, {2, 2, 2, 2, 2, 2, 2, 2});
  assign(stream, all.permute({7, 6, 5, 4, 3, 2, 1, 0}), all.permute({0, 7, 6, 1, 5, 2, 4, 3}) + 1);
  stream.synchronize();
  CHECK(eight == std::vector<float>(256, 1.f));
}

TEST_CASE("assign names the extents that do not broadcast, and the caller's line") {
  Stream stream;
  std::vector<float> x(12), y(3);
  TensorView a(x, {3, 4});
  TensorView b(y);
  auto out = Tensor<float, 2>::zeros({3, 4});
  int line = __LINE__ + 1;
  std::string message = message_of([&] { assign(stream, out, a + b); });
  CHECK(message.find("test_assign.cpp:" + std::to_string(line) + ": ") != std::string::npos);
  CHECK(after_line(message) == "assign: operand 1 of the expression has extents {3}, which do not broadcast "
                               "to the output's {3, 4}; each "
                               "extent must be the output's or 1, counted from the last");
  message = message_of([&] { assign(stream, TensorView(x.data(), {3, 4}, {4, 0}), a); });
  CHECK(after_line(message) == "assign: the output with extents {3, 4} and strides {4, 0} repeats its "
                               "elements along axis 1, whose stride "
                               "is 0; assign to a view without broadcast axes");
  std::vector<std::uint8_t> bytes(4);
  message = message_of([&] { assign(stream, TensorView(bytes), TensorView(bytes) + 300); });
  CHECK(after_line(message) ==
        "assign: the number 300 does not fit into u8, the dtype of the operand next to it; "
        "cast that operand to a wider dtype first");
  message = message_of([&] { assign(stream, out, map([](auto t) { return cumsum(t, axis<0>); }, a)); });
  CHECK(after_line(message) == "assign: a function given to map uses scan, which does not work element by "
                               "element; write a kernel for it");
  stream.synchronize();
}

TEST_CASE("other numbers, addresses and extents cause no compilation, and a warm assign does not allocate") {
  Stream stream;
  std::vector<float> x(16, 1.f), y(16, 2.f), out(16);
  auto call = [&](float scale) {
    assign(stream, TensorView(out), relu(TensorView(x) * scale + TensorView(y)) + 1);
  };
  call(2);
  stream.synchronize();
  long before = allocation_count();
  for (int i = 0; i < 1000; ++i)
    call(static_cast<float>(i));
  CHECK(allocation_count() == before);
  stream.synchronize();
  CHECK(out == std::vector<float>(16, 999 + 2 + 1));
}

TEST_CASE("threads may assign at the same time") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      Stream stream;
      for (int n : {10, 1000, 30000}) {
        std::vector<float> x(static_cast<std::size_t>(n), static_cast<float>(t));
        assign(stream, TensorView(x), TensorView(x) * 3 - 1);
        stream.synchronize();
        for (float v : x)
          wrong += v != static_cast<float>(t * 3 - 1);
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("on a stream with an error, an assign through a temporary throws without a leak") {
  Stream stream;
  std::vector<float> x(100, 1.f);
  stream.host_function([](void*) { throw UserError("the test's error"); }, nullptr);
  CHECK_THROWS_WITH(stream.synchronize(), "the test's error");
  CHECK_THROWS_WITH(assign(stream, TensorView(x).slice(0, 1, 100), TensorView(x).slice(0, 0, 99)),
                    "the test's error");
  stream.clear_error();
  assign(stream, TensorView(x).slice(0, 1, 100), TensorView(x).slice(0, 0, 99) + 1);
  stream.synchronize();
  CHECK(x[99] == 2);
}
