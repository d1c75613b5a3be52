// Compares every elementwise operation on every dtype with plain C++ expressions.
#include "exact_gelu.h"
#include "test_seed.h"

#include <catch2/catch.hpp>
#include <kiln/dsl/ir/semantics.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

using namespace kiln;
using namespace kiln::ir;

namespace {

template <class T> Cell cell(T x) {
  Cell c = 0;
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
    c = static_cast<Cell>(static_cast<std::int64_t>(x));
  else
    std::memcpy(&c, &x, sizeof x);
  return c;
}

// Random values and special ones: extremes, denormals, infinities, NaN.
template <class T> std::vector<T> samples(std::mt19937_64& random) {
  using L = std::numeric_limits<T>;
  std::vector<T> list{
      T(0), T(1), T(2), T(3), T(7), L::max(), L::lowest(), T(L::max() / 2), T(L::digits), T(L::digits + 1)};
  if constexpr (std::is_floating_point_v<T>) {
    for (T x :
         {L::infinity(), L::quiet_NaN(), L::denorm_min(), L::min(), T(0.5), T(2.5), T(1e-3), T(40), T(-0.75)})
      list.push_back(x), list.push_back(-x);
    list.push_back(T(-0.0));
    for (int i = 0; i < 24; ++i)
      list.push_back(std::normal_distribution<T>(0, 10)(random));
  } else {
    if constexpr (std::is_signed_v<T>) list.push_back(T(-1)), list.push_back(T(-2));
    for (int i = 0; i < 24; ++i)
      list.push_back(static_cast<T>(random()));
  }
  return list;
}

template <class T> void check_same(Cell got, T want) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(want)) {
      CHECK(std::isnan(static_cast<T>(float_of(dtype_of<T>, got))));
      return;
    }
  CHECK(got == cell(want));
}

} // namespace

TEMPLATE_TEST_CASE("integer operations wrap and never trap", "", std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
  using T = TestType;
  using U = std::make_unsigned_t<T>;
  constexpr DType t = dtype_of<T>;
  constexpr int width = 8 * sizeof(T);
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto list = samples<T>(random);
  for (T a : list) {
    INFO("a = " << +a);
    CHECK(evaluate(Opcode::Neg, t, cell(a)) == cell(static_cast<T>(0 - static_cast<std::uint64_t>(a))));
    CHECK(evaluate(Opcode::Not, t, cell(a)) == cell(static_cast<T>(~a)));
    CHECK(evaluate(Opcode::Abs, t, cell(a)) ==
          cell(a < 0 ? static_cast<T>(0 - static_cast<std::uint64_t>(a)) : a));
    int bits = 0;
    for (int i = 0; i < width; ++i)
      bits += (static_cast<U>(a) >> i) & 1;
    CHECK(evaluate(Opcode::PopCount, t, cell(a)) == cell(static_cast<T>(bits)));
    for (T b : list) {
      INFO("b = " << +b);
      auto check = [&](Opcode code, T want) {
        INFO(name(code));
        CHECK(evaluate(code, t, cell(a), cell(b)) == cell(want));
      };
      auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
      check(Opcode::Add, static_cast<T>(ua + ub));
      check(Opcode::Sub, static_cast<T>(ua - ub));
      check(Opcode::Mul, static_cast<T>(ua * ub));
      using Twice = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      check(Opcode::MulHi, static_cast<T>(static_cast<Twice>(a) * static_cast<Twice>(b) >> width));
      bool overflow = std::is_signed_v<T> && a == std::numeric_limits<T>::lowest() && b == static_cast<T>(-1);
      check(Opcode::Div, b == 0 ? T(0) : overflow ? a : static_cast<T>(a / b));
      check(Opcode::Rem, b == 0 ? a : overflow ? T(0) : static_cast<T>(a % b));
      check(Opcode::Min, a < b ? a : b);
      check(Opcode::Max, a < b ? b : a);
      check(Opcode::And, static_cast<T>(a & b));
      check(Opcode::Or, static_cast<T>(a | b));
      check(Opcode::Xor, static_cast<T>(a ^ b));
      bool wide = static_cast<U>(b) >= static_cast<U>(width);
      check(Opcode::Shl, wide ? T(0) : static_cast<T>(static_cast<U>(static_cast<U>(a) << b)));
      check(Opcode::Shr, wide ? (a < 0 ? static_cast<T>(-1) : T(0)) : static_cast<T>(a >> b));
      CHECK(evaluate(Opcode::Eq, t, cell(a), cell(b)) == (a == b));
      CHECK(evaluate(Opcode::Ne, t, cell(a), cell(b)) == (a != b));
      CHECK(evaluate(Opcode::Lt, t, cell(a), cell(b)) == (a < b));
      CHECK(evaluate(Opcode::Le, t, cell(a), cell(b)) == (a <= b));
      CHECK(evaluate(Opcode::Gt, t, cell(a), cell(b)) == (a > b));
      CHECK(evaluate(Opcode::Ge, t, cell(a), cell(b)) == (a >= b));
      CHECK(evaluate(Opcode::Select, t, 1, cell(a), cell(b)) == cell(a));
      CHECK(evaluate(Opcode::Select, t, 0, cell(a), cell(b)) == cell(b));
      check(Opcode::Fma, static_cast<T>(ua * ub)); // the third operand is zero
    }
  }
}

TEMPLATE_TEST_CASE("float operations follow IEEE 754, functions are within their bounds", "", float, double) {
  using T = TestType;
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  constexpr DType t = dtype_of<T>;
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto list = samples<T>(random);
  const std::map<Opcode, std::function<Wide(Wide)>> functions{
      {Opcode::Exp, [](Wide x) { return std::exp(x); }},
      {Opcode::Exp2, [](Wide x) { return std::pow(Wide(2), x); }},
      {Opcode::Expm1, [](Wide x) { return std::fabs(x) < Wide(0.1) ? std::expm1(x) : std::exp(x) - 1; }},
      {Opcode::Log, [](Wide x) { return std::log(x); }},
      {Opcode::Log2, [](Wide x) { return std::log2(x); }},
      {Opcode::Log1p, [](Wide x) { return std::log1p(x); }},
      {Opcode::Sin, [](Wide x) { return std::sin(x); }},
      {Opcode::Cos, [](Wide x) { return std::cos(x); }},
      {Opcode::Tan, [](Wide x) { return std::tan(x); }},
      {Opcode::Tanh, [](Wide x) { return std::tanh(x); }},
      {Opcode::Erf, [](Wide x) { return std::erf(x); }},
      {Opcode::Sigmoid, [](Wide x) { return 1 / (1 + std::exp(-x)); }},
      {Opcode::Gelu, [](Wide x) { return test::exact_gelu(x); }},
      {Opcode::Rsqrt, [](Wide x) { return 1 / std::sqrt(x); }},
  };
  for (T a : list) {
    INFO("a = " << a);
    check_same<T>(evaluate(Opcode::Neg, t, cell(a)), -a);
    check_same<T>(evaluate(Opcode::Abs, t, cell(a)), std::fabs(a));
    check_same<T>(evaluate(Opcode::Sqrt, t, cell(a)), std::sqrt(a));
    check_same<T>(evaluate(Opcode::Floor, t, cell(a)), std::floor(a));
    check_same<T>(evaluate(Opcode::Ceil, t, cell(a)), std::ceil(a));
    check_same<T>(evaluate(Opcode::Trunc, t, cell(a)), std::trunc(a));
    check_same<T>(evaluate(Opcode::Round, t, cell(a)), std::nearbyint(a));
    CHECK(evaluate(Opcode::IsNan, t, cell(a)) == (a != a));
    CHECK(evaluate(Opcode::IsInf, t, cell(a)) == (std::fabs(a) > std::numeric_limits<T>::max()));
    for (const auto& [code, f] : functions) {
      INFO(name(code));
      T want = static_cast<T>(f(a)), got = static_cast<T>(float_of(t, evaluate(code, t, cell(a))));
      if (std::isnan(want) || std::isinf(want))
        check_same<T>(cell(got), want);
      else
        CHECK(std::fabs(got - want) <=
              2 * (std::nextafter(std::fabs(want), std::numeric_limits<T>::infinity()) - std::fabs(want)));
    }
    for (T b : list) {
      INFO("b = " << b);
      auto check = [&](Opcode code, T want) {
        INFO(name(code));
        check_same<T>(evaluate(code, t, cell(a), cell(b)), want);
      };
      check(Opcode::Add, a + b);
      check(Opcode::Sub, a - b);
      check(Opcode::Mul, a * b);
      check(Opcode::Div, a / b);
      check(Opcode::Rem, std::fmod(a, b));
      if (a != 0 || b != 0) { // the sign of a zero is not specified
        check(Opcode::Min, std::fmin(a, b));
        check(Opcode::Max, std::fmax(a, b));
        const bool nan = std::isnan(a) || std::isnan(b);
        check(Opcode::MinNan, nan ? a + b : std::fmin(a, b));
        check(Opcode::MaxNan, nan ? a + b : std::fmax(a, b));
      }
      check(Opcode::Atan2, static_cast<T>(std::atan2(Wide(a), Wide(b))));
      check(Opcode::Pow, static_cast<T>(std::pow(Wide(a), Wide(b))));
      T c = list[random() % list.size()];
      check_same<T>(evaluate(Opcode::Fma, t, cell(a), cell(b), cell(c)), std::fma(a, b, c));
      CHECK(evaluate(Opcode::Eq, t, cell(a), cell(b)) == (a == b));
      CHECK(evaluate(Opcode::Ne, t, cell(a), cell(b)) == (a != b));
      CHECK(evaluate(Opcode::Lt, t, cell(a), cell(b)) == (a < b));
      CHECK(evaluate(Opcode::Le, t, cell(a), cell(b)) == (a <= b));
      CHECK(evaluate(Opcode::Gt, t, cell(a), cell(b)) == (a > b));
      CHECK(evaluate(Opcode::Ge, t, cell(a), cell(b)) == (a >= b));
    }
  }
}

TEST_CASE("narrow floats decode to their table and encode to the nearest, ties to even") {
  for (DType t : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    INFO(name(t));
    // All finite patterns of one sign, in increasing order.
    std::vector<double> values;
    unsigned count = 1u << (8 * size_of(t) - 1);
    for (unsigned bits = 0; bits < count; ++bits) {
      double x = static_cast<double>(float_of(t, bits));
      if (!std::isfinite(x)) break;
      values.push_back(x);
      REQUIRE(cell_of_float(t, x) == bits);
      REQUIRE(cell_of_float(t, -x) == (bits | count));
      if (bits > 0) REQUIRE(values[bits] > values[bits - 1]);
    }
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      double middle = (values[i] + values[i + 1]) / 2;
      REQUIRE(cell_of_float(t, middle) == i + i % 2);
      REQUIRE(cell_of_float(t, std::nextafter(middle, 0.0)) == i);
      REQUIRE(cell_of_float(t, std::nextafter(middle, 1e300)) == i + 1);
    }
    CHECK(std::isnan(static_cast<double>(float_of(t, cell_of_float(t, std::nan(""))))));
    Cell of_infinity = cell_of_float(t, std::numeric_limits<double>::infinity());
    if (size_of(t) == 1)
      CHECK(static_cast<double>(float_of(t, of_infinity)) == values.back());
    else
      CHECK(std::isinf(static_cast<double>(float_of(t, of_infinity))));
  }
  CHECK(static_cast<double>(float_of(DType::F8E4M3, 0x7e)) == 448);
  CHECK(static_cast<double>(float_of(DType::F8E5M2, 0x7b)) == 57344);
  CHECK(static_cast<double>(float_of(DType::F16, 0x7bff)) == 65504);
  CHECK(static_cast<double>(float_of(DType::F16, 1)) == std::ldexp(1.0, -24));
  CHECK(static_cast<double>(float_of(DType::BF16, 0x3f80)) == 1);
}

TEST_CASE("narrow float arithmetic computes in f32 and rounds once") {
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (DType t : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2})
    for (int i = 0; i < 2000; ++i) {
      Cell mask = (Cell{1} << (8 * size_of(t))) - 1, a = random() & mask, b = random() & mask;
      auto x = static_cast<float>(float_of(t, a)), y = static_cast<float>(float_of(t, b));
      INFO(name(t) << " " << x << " " << y);
      auto same = [&](Cell got, float want) {
        if (std::isnan(want))
          CHECK(std::isnan(static_cast<float>(float_of(t, got))));
        else
          CHECK(got == cell_of_float(t, want));
      };
      same(evaluate(Opcode::Add, t, a, b), x + y);
      same(evaluate(Opcode::Mul, t, a, b), x * y);
      same(evaluate(Opcode::Div, t, a, b), x / y);
      same(evaluate(Opcode::Exp, t, a), std::exp(x));
      CHECK(evaluate(Opcode::Lt, t, a, b) == (x < y));
    }
}

TEST_CASE("casts round once, saturate and wrap") {
  auto number = [](double x) { return cell(x); };
  CHECK(evaluate_cast(DType::F64, DType::I8, number(200)) == cell<std::int8_t>(127));
  CHECK(evaluate_cast(DType::F64, DType::I8, number(-200)) == cell<std::int8_t>(-128));
  CHECK(evaluate_cast(DType::F64, DType::I8, number(-3.9)) == cell<std::int8_t>(-3));
  CHECK(evaluate_cast(DType::F64, DType::U8, number(-3.9)) == 0);
  CHECK(evaluate_cast(DType::F64, DType::U64, number(1e30)) == ~Cell{0});
  CHECK(evaluate_cast(DType::F64, DType::I64, number(1e30)) == 0x7fffffffffffffff);
  CHECK(evaluate_cast(DType::F64, DType::I64, number(-1e30)) == 0x8000000000000000);
  CHECK(evaluate_cast(DType::F64, DType::I32, number(std::nan(""))) == 0);
  CHECK(evaluate_cast(DType::F64, DType::Bool, number(0.25)) == 1);
  CHECK(evaluate_cast(DType::I32, DType::Bool, cell(-256)) == 1);
  CHECK(evaluate_cast(DType::I32, DType::I8, cell(200)) == cell<std::int8_t>(-56));
  CHECK(evaluate_cast(DType::I8, DType::U32, cell<std::int8_t>(-1)) == 0xffffffff);
  CHECK(evaluate_cast(DType::Bool, DType::F32, 1) == cell(1.0f));
  CHECK(evaluate_cast(DType::U64, DType::F32, 0xffffff7fffffffff) == cell(0x1.fffffep63f)); // not through f64
  CHECK(evaluate_cast(DType::I64, DType::BF16, cell((std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1)) ==
        0x5e81);
  CHECK(evaluate_cast(DType::I64, DType::BF16, cell((std::int64_t{1} << 62) + (std::int64_t{1} << 54))) ==
        0x5e80);
  CHECK(evaluate_cast(DType::F64, DType::F8E4M3, number(1e9)) == 0x7e);
  CHECK(evaluate_cast(DType::F32, DType::F8E5M2, cell(-std::numeric_limits<float>::infinity())) == 0xfb);
  CHECK(evaluate_cast(DType::F64, DType::F16, number(1 + 0x1p-11 + 0x1p-40)) ==
        0x3c01); // rounded once, and not through f32
  CHECK(evaluate_bitcast(DType::F32, DType::I32, cell(-0.0f)) ==
        cell(std::numeric_limits<std::int32_t>::min()));
  CHECK(evaluate_bitcast(DType::I8, DType::U8, cell<std::int8_t>(-1)) == 0xff);
  const auto seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    double x = std::ldexp(std::normal_distribution<double>()(random), static_cast<int>(random() % 70));
    INFO(x);
    CHECK(evaluate_cast(DType::F64, DType::F32, number(x)) == cell(static_cast<float>(x)));
    if (std::fabs(x) < 2e9)
      CHECK(evaluate_cast(DType::F64, DType::I32, number(x)) == cell(static_cast<std::int32_t>(x)));
    auto n = static_cast<std::int64_t>(random());
    CHECK(evaluate_cast(DType::I64, DType::F32, cell(n)) == cell(static_cast<float>(n)));
    CHECK(evaluate_cast(DType::I64, DType::F64, cell(n)) == cell(static_cast<double>(n)));
    CHECK(evaluate_cast(DType::I64, DType::I16, cell(n)) == cell(static_cast<std::int16_t>(n)));
  }
}

TEST_CASE("an operation that a dtype lacks is an internal error, never a wrong number") {
  for (int i = 0; i < op_count; ++i)
    for (int t = 0; t < dtype_count; ++t) {
      auto code = static_cast<Opcode>(i);
      auto dtype = static_cast<DType>(t);
      if (can_evaluate(code, dtype))
        CHECK_NOTHROW(evaluate(code, dtype, 1, 1, 1));
      else
        CHECK_THROWS_AS(evaluate(code, dtype, 1, 1, 1), InternalError);
    }
}
