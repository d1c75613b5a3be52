// Tests floating-point instructions: exact where PTX requires it, within the documented error otherwise.
#include "one_instruction.h"
#include "test_seed.h"

#include <array>
#include <cmath>
#include <functional>

using namespace kiln;
using test::OneInstruction;

namespace {

using U = std::uint64_t;
__extension__ typedef __float128 Quad; // holds sums and products of doubles of similar size exactly

float f32(U b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b)); }
double f64(U b) { return std::bit_cast<double>(b); }

std::vector<std::vector<U>> operands(std::mt19937_64& random, int width, std::size_t count, int n = 1024) {
  std::vector<std::vector<U>> in(count);
  for (auto& column : in)
    for (int k = 0; k < n; ++k)
      column.push_back(test::random_bits(random, width, true));
  return in;
}
OneInstruction instruction(const std::string& text, int width, std::size_t count,
                           const std::string& result = "") {
  const std::string type = "b" + std::to_string(width);
  return {text, result.empty() ? type : result, std::vector<std::string>(count, type)};
}

// A small format by its definition: all its values; rounds by comparing with them.
struct SmallFormat {
  int width, mantissa;
  bool has_infinity;
  double value(std::uint32_t bits) const {
    const int exponent = width - 1 - mantissa, top = (1 << exponent) - 1, bias = top / 2;
    const int e = static_cast<int>(bits >> mantissa) & top,
              m = static_cast<int>(bits) & ((1 << mantissa) - 1);
    const double sign = bits >> (width - 1) & 1 ? -1 : 1;
    if (has_infinity && e == top) return m ? NAN : sign * INFINITY;
    if (!has_infinity && e == top && m == (1 << mantissa) - 1) return NAN;
    return sign *
           (e ? std::ldexp(m + (1 << mantissa), e - bias - mantissa) : std::ldexp(m, 1 - bias - mantissa));
  }
  bool is_nan(std::uint32_t bits) const { return std::isnan(value(bits)); }
};
const SmallFormat half{16, 10, true}, bfloat{16, 7, true}, e4m3{8, 3, false}, e5m2{8, 2, true};

// Whether `bits` is `exact` rounded to nearest even, by comparing with its neighbours. `top`: the result of
// overflow.
bool nearest(const SmallFormat& f, std::uint32_t bits, Quad exact, bool saturates) {
  if (exact != exact) return f.is_nan(bits);
  const std::uint32_t sign = bits >> (f.width - 1), magnitude = bits & ((1u << (f.width - 1)) - 1);
  if (f.is_nan(bits)) return false;
  const Quad a = exact < 0 ? -exact : exact;
  if (a != 0 && (exact < 0) != (sign == 1)) return false;
  std::uint32_t largest = (1u << (f.width - 1)) - 1;
  while (f.is_nan(largest) || std::isinf(f.value(largest)))
    --largest;
  const Quad v = f.value(magnitude);
  if (std::isinf(f.value(magnitude))) { // beyond the midpoint to the value that would be next
    const Quad step = static_cast<Quad>(f.value(largest)) - f.value(largest - 1);
    return !saturates && a >= static_cast<Quad>(f.value(largest)) + step / 2;
  }
  const Quad below = magnitude ? (v + f.value(magnitude - 1)) / 2 : Quad(0);
  if (a < below || (a == below && magnitude && (magnitude & 1))) return false;
  if (magnitude == largest) {
    const Quad step = v - f.value(magnitude - 1);
    return saturates || a < v + step / 2 || (a == v + step / 2 && !(magnitude & 1));
  }
  const Quad above = (v + f.value(magnitude + 1)) / 2;
  return a < above || (a == above && !(magnitude & 1));
}

} // namespace

TEST_CASE("f32 and f64 arithmetic of the emulated GPU rounds once", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  struct Case {
    std::string op;
    std::size_t operands;
    // The reference in f64, which for f32 operands is exact enough for one more rounding.
    std::function<double(double, double, double)> in_f64;
    std::function<float(float, float, float)> in_f32;
  };
  const Case cases[] = {
      {"add.rn", 2, [](double a, double b, double) { return a + b; },
       [](float a, float b, float) { return a + b; }},
      {"sub.rn", 2, [](double a, double b, double) { return a - b; },
       [](float a, float b, float) { return a - b; }},
      {"mul.rn", 2, [](double a, double b, double) { return a * b; },
       [](float a, float b, float) { return a * b; }},
      {"fma.rn", 3, [](double a, double b, double c) { return std::fma(a, b, c); },
       [](float a, float b, float c) { return std::fma(a, b, c); }},
      {"div.rn", 2, [](double a, double b, double) { return a / b; },
       [](float a, float b, float) { return a / b; }},
      {"sqrt.rn", 1, [](double a, double, double) { return std::sqrt(a); },
       [](float a, float, float) { return std::sqrt(a); }},
      {"rcp.rn", 1, [](double a, double, double) { return 1 / a; },
       [](float a, float, float) { return 1 / a; }},
  };
  for (const Case& c : cases) {
    const std::string arguments =
        std::string(" %d, %a") + (c.operands > 1 ? ", %b" : "") + (c.operands > 2 ? ", %c" : "") + ";";
    auto in = operands(random, 32, c.operands);
    auto at = [&](std::size_t k, std::size_t n) { return k < in.size() ? in[k][n] : 0; };
    auto found = test::run(instruction(c.op + ".f32" + arguments, 32, c.operands), in);
    for (std::size_t n = 0; n < found.size(); ++n) {
      CAPTURE(c.op, at(0, n), at(1, n), at(2, n));
      const float expected = c.in_f32(f32(at(0, n)), f32(at(1, n)), f32(at(2, n)));
      if (expected != expected)
        REQUIRE(found[n] == 0x7fffffff);
      else
        REQUIRE(found[n] == std::bit_cast<std::uint32_t>(expected));
    }
    // ftz: subnormal operands and results become zeros with their sign
    found = test::run(instruction(c.op + ".ftz.f32" + arguments, 32, c.operands), in);
    auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
    for (std::size_t n = 0; n < found.size(); ++n) {
      CAPTURE(c.op, at(0, n), at(1, n), at(2, n));
      const float expected =
          flush(c.in_f32(flush(f32(at(0, n))), flush(f32(at(1, n))), flush(f32(at(2, n)))));
      if (expected != expected)
        REQUIRE(found[n] == 0x7fffffff);
      else
        REQUIRE(found[n] == std::bit_cast<std::uint32_t>(expected));
    }
    in = operands(random, 64, c.operands);
    found = test::run(instruction(c.op + ".f64" + arguments, 64, c.operands), in);
    for (std::size_t n = 0; n < found.size(); ++n) {
      CAPTURE(c.op, at(0, n), at(1, n), at(2, n));
      const double expected = c.in_f64(f64(at(0, n)), f64(at(1, n)), f64(at(2, n)));
      if (expected != expected)
        REQUIRE(std::isnan(f64(found[n])));
      else
        REQUIRE(found[n] == std::bit_cast<U>(expected));
    }
  }
}

TEST_CASE("directed roundings of the emulated GPU bound the exact value", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const char* mode : {"rz", "rm", "rp"})
    for (const char* op : {"add", "mul", "fma"}) {
      const std::size_t count = op[0] == 'f' ? 3 : 2;
      const auto in = operands(random, 32, count);
      const auto found = test::run(
          instruction(std::string(op) + "." + mode + ".f32 %d, %a, %b" + (count == 3 ? ", %c;" : ";"), 32,
                      count),
          in);
      for (std::size_t n = 0; n < found.size(); ++n) {
        const double a = f32(in[0][n]), b = f32(in[1][n]), c = count == 3 ? f32(in[2][n]) : 0;
        const float r = f32(found[n]);
        const Quad exact = op[0] == 'a' ? Quad(a) + b : op[0] == 'm' ? Quad(a) * b : Quad(a) * b + c;
        CAPTURE(mode, op, a, b, c, r);
        if (exact != exact) {
          REQUIRE(found[n] == 0x7fffffff);
          continue;
        }
        const double x = op[0] == 'a' ? a : a * b, y = op[0] == 'a' ? b : c;
        const double apart =
            x != 0 && y != 0 && op[0] != 'm' ? std::log2(std::fabs(x)) - std::log2(std::fabs(y)) : 0;
        if (std::fabs(apart) > 60) continue; // more than a Quad can hold
        const bool down = mode[1] == 'm' || (mode[1] == 'z' && exact > 0),
                   up = mode[1] == 'p' || (mode[1] == 'z' && exact < 0);
        if (down) {
          REQUIRE(Quad(r) <= exact);
          REQUIRE((Quad(std::nextafter(r, INFINITY)) > exact || r == INFINITY));
        }
        if (up) {
          REQUIRE(Quad(r) >= exact);
          REQUIRE((Quad(std::nextafter(r, -INFINITY)) < exact || r == -INFINITY));
        }
        if (exact == 0) REQUIRE(r == 0);
      }
    }
}

TEST_CASE("f16 and bf16 arithmetic of the emulated GPU rounds once, in halves and in pairs", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  struct Case {
    std::string op;
    std::size_t operands;
    std::function<Quad(Quad, Quad, Quad)> exact;
  };
  const Case cases[] = {
      {"add", 2, [](Quad a, Quad b, Quad) { return a + b; }},
      {"sub", 2, [](Quad a, Quad b, Quad) { return a - b; }},
      {"mul", 2, [](Quad a, Quad b, Quad) { return a * b; }},
      {"fma.rn", 3, [](Quad a, Quad b, Quad c) { return a * b + c; }},
  };
  for (const Case& c : cases)
    for (const SmallFormat* f : {&half, &bfloat}) {
      const std::string type = f == &half ? "f16" : "bf16",
                        arguments = std::string(" %d, %a, %b") + (c.operands > 2 ? ", %c;" : ";");
      const auto low = operands(random, 16, c.operands), high = operands(random, 16, c.operands);
      const auto found = test::run(instruction(c.op + "." + type + arguments, 16, c.operands), low);
      auto packed = low;
      for (std::size_t k = 0; k < packed.size(); ++k)
        for (std::size_t n = 0; n < packed[k].size(); ++n)
          packed[k][n] |= high[k][n] << 16;
      const auto pairs = test::run(instruction(c.op + "." + type + "x2" + arguments, 32, c.operands), packed);
      for (std::size_t n = 0; n < found.size(); ++n) {
        auto v = [&](const auto& in, std::size_t k) {
          return Quad(k < in.size() ? f->value(static_cast<std::uint32_t>(in[k][n])) : 0.0);
        };
        // Skips what a Quad cannot hold: the sum of a product and a value 2^90 times larger or smaller.
        auto far = [&](const auto& in) {
          const double product = static_cast<double>(v(in, 0) * v(in, 1)), c2 = static_cast<double>(v(in, 2));
          return product != 0 && c2 != 0 &&
                 std::fabs(std::log2(std::fabs(product)) - std::log2(std::fabs(c2))) > 90;
        };
        if (c.operands > 2 && (far(low) || far(high))) continue;
        CAPTURE(c.op, type, low[0][n], low[1][n], c.operands > 2 ? low[2][n] : 0, found[n]);
        REQUIRE(nearest(*f, static_cast<std::uint32_t>(found[n]), c.exact(v(low, 0), v(low, 1), v(low, 2)),
                        false));
        REQUIRE(nearest(*f, static_cast<std::uint32_t>(pairs[n] >> 16),
                        c.exact(v(high, 0), v(high, 1), v(high, 2)), false));
        REQUIRE((pairs[n] & 0xffff) == found[n]);
      }
    }
}

TEST_CASE("conversions to small formats round once, and back are exact", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto in = operands(random, 32, 2, 4096);
  // Values that matter to the small formats: near their values, and at the midpoint of two.
  for (std::size_t n = 0; n < in[0].size(); n += 2)
    for (auto& column : in) {
      const SmallFormat& f = *std::array{&half, &bfloat, &e4m3, &e5m2}[n / 2 % 4];
      const std::uint32_t bits = static_cast<std::uint32_t>(random()) & ((1u << f.width) - 1);
      const double v = f.value(bits), next = f.value((bits + 1) & ((1u << f.width) - 1));
      const float middle = static_cast<float>(random() % 2 ? v : (v + next) / 2);
      column[n] = std::bit_cast<std::uint32_t>(
          random() % 4 ? middle : std::nextafter(middle, random() % 2 ? 1e9f : -1e9f));
    }
  const auto to_half = test::run(instruction("cvt.rn.f16.f32 %d, %a;", 32, 1, "b16"), {in[0]});
  const auto to_bfloat = test::run(instruction("cvt.rn.bf16.f32 %d, %a;", 32, 1, "b16"), {in[0]});
  const auto to_pair = test::run(instruction("cvt.rn.f16x2.f32 %d, %a, %b;", 32, 2), in);
  const auto to_e4m3 = test::run(instruction("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", 32, 2, "b16"), in);
  const auto to_e5m2 = test::run(instruction("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", 32, 2, "b16"), in);
  for (std::size_t n = 0; n < in[0].size(); ++n) {
    const Quad a = f32(in[0][n]), b = f32(in[1][n]);
    CAPTURE(f32(in[0][n]), f32(in[1][n]), to_half[n], to_bfloat[n], to_pair[n], to_e4m3[n], to_e5m2[n]);
    REQUIRE(nearest(half, static_cast<std::uint32_t>(to_half[n]), a, false));
    REQUIRE(nearest(bfloat, static_cast<std::uint32_t>(to_bfloat[n]), a, false));
    REQUIRE(to_pair[n] >> 16 == to_half[n]);
    REQUIRE(nearest(half, static_cast<std::uint32_t>(to_pair[n] & 0xffff), b, false));
    REQUIRE(nearest(e4m3, static_cast<std::uint32_t>(to_e4m3[n] >> 8), a, true));
    REQUIRE(nearest(e4m3, static_cast<std::uint32_t>(to_e4m3[n] & 0xff), b, true));
    REQUIRE(nearest(e5m2, static_cast<std::uint32_t>(to_e5m2[n] >> 8), a, true));
  }
  std::vector<U> all;
  for (U n = 0; n < 65536; ++n)
    all.push_back(n);
  for (auto& [text, f] :
       {std::pair("cvt.f32.f16 %d, %a;", &half), std::pair("cvt.f32.bf16 %d, %a;", &bfloat)}) {
    const auto found = test::run({text, "b32", {"b16"}}, {all});
    for (U n = 0; n < 65536; ++n) {
      CAPTURE(text, n);
      const double v = f->value(static_cast<std::uint32_t>(n));
      REQUIRE((std::isnan(v) ? std::isnan(f32(found[n]))
                             : found[n] == std::bit_cast<std::uint32_t>(static_cast<float>(v))));
    }
  }
  const auto halves = test::run({"cvt.rn.f16x2.e4m3x2 %d, %a;", "b32", {"b16"}}, {all});
  for (U n = 0; n < 65536; ++n) {
    CAPTURE(n, halves[n]);
    for (int k = 0; k < 2; ++k) {
      const double v = e4m3.value(n >> (8 * k) & 0xff), h = half.value(halves[n] >> (16 * k) & 0xffff);
      REQUIRE((std::isnan(v) ? std::isnan(h) : v == h && std::signbit(v) == std::signbit(h)));
    }
  }
}

TEST_CASE("conversions between integers and floats", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto in = operands(random, 32, 1);
  for (std::size_t n = 0; n < in[0].size(); n += 2)
    in[0][n] = std::bit_cast<std::uint32_t>(
        static_cast<float>(static_cast<std::int64_t>(random() % 8001) - 4000) / 8);
  struct Case {
    const char* mode;
    long double (*round)(long double);
  };
  auto even = [](long double v) -> long double {
    const long double f = std::floor(v), r = v - f;
    return r < 0.5L || (r == 0.5L && std::fmod(f, 2.0L) == 0) ? f : f + 1;
  };
  const Case cases[] = {{"rni", even},
                        {"rzi", [](long double v) { return std::trunc(v); }},
                        {"rmi", [](long double v) { return std::floor(v); }},
                        {"rpi", [](long double v) { return std::ceil(v); }}};
  for (const Case& c : cases)
    for (const char* type : {"s32", "u32", "s64", "u64", "s16", "u8"}) {
      const bool s = type[0] == 's';
      const int w = std::atoi(type + 1);
      const auto found = test::run(
          {std::string("cvt.") + c.mode + "." + type + ".f32 %d, %a;", w == 64 ? "b64" : "b32", {"b32"}}, in);
      for (std::size_t n = 0; n < found.size(); ++n) {
        const float v = f32(in[0][n]);
        CAPTURE(c.mode, type, v, found[n]);
        const long double low = s ? -std::ldexp(1.0L, w - 1) : 0, high = std::ldexp(1.0L, s ? w - 1 : w) - 1;
        U expected;
        if (v != v) {
          expected = w == 64 ? U(1) << 63 : 0;
        } else {
          const long double r = c.round(v), clamped = r < low ? low : r > high ? high : r;
          expected = s ? static_cast<U>(static_cast<std::int64_t>(clamped)) : static_cast<U>(clamped);
        }
        if (w < 64) expected &= 0xffffffff;
        REQUIRE(found[n] == expected);
      }
    }
  std::vector<std::vector<U>> integers(1);
  for (int n = 0; n < 1024; ++n)
    integers[0].push_back(test::random_bits(random, 64, false));
  const auto to_f32 = test::run({"cvt.rn.f32.s64 %d, %a;", "b32", {"b64"}}, integers),
             to_f32_up = test::run({"cvt.rp.f32.u64 %d, %a;", "b32", {"b64"}}, integers),
             to_f64_zero = test::run({"cvt.rz.f64.s64 %d, %a;", "b64", {"b64"}}, integers),
             to_half = test::run({"cvt.rn.f16.s64 %d, %a;", "b16", {"b64"}}, integers);
  for (std::size_t n = 0; n < 1024; ++n) {
    const U u = integers[0][n];
    const auto s = static_cast<std::int64_t>(u);
    CAPTURE(u, to_f32[n], to_f32_up[n], to_f64_zero[n], to_half[n]);
    REQUIRE(f32(to_f32[n]) == static_cast<float>(static_cast<long double>(s)));
    const float up = f32(to_f32_up[n]);
    REQUIRE((static_cast<long double>(up) >= u &&
             (u == 0 || static_cast<long double>(std::nextafter(up, 0.0f)) < u)));
    const double zero = f64(to_f64_zero[n]);
    REQUIRE((std::fabs(static_cast<long double>(zero)) <= std::fabs(static_cast<long double>(s)) &&
             (s == 0 || std::fabs(static_cast<long double>(std::nextafter(
                            zero, s > 0 ? INFINITY : -INFINITY))) > std::fabs(static_cast<long double>(s)))));
    REQUIRE(nearest(half, static_cast<std::uint32_t>(to_half[n]), static_cast<Quad>(s), false));
  }
}

TEST_CASE("minima, maxima and comparisons handle NaN and signed zeros", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto in = operands(random, 32, 2);
  const auto low = test::run(instruction("min.f32 %d, %a, %b;", 32, 2), in),
             high_nan = test::run(instruction("max.NaN.f32 %d, %a, %b;", 32, 2), in);
  for (std::size_t n = 0; n < low.size(); ++n) {
    const float a = f32(in[0][n]), b = f32(in[1][n]);
    CAPTURE(a, b);
    if (a != a && b != b) {
      REQUIRE(low[n] == 0x7fffffff);
    } else {
      const float expected = a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
      REQUIRE(low[n] == std::bit_cast<std::uint32_t>(expected));
    }
    if (a != a || b != b)
      REQUIRE(high_nan[n] == 0x7fffffff);
    else
      REQUIRE(high_nan[n] ==
              std::bit_cast<std::uint32_t>(a == b ? (std::signbit(a) ? b : a) : std::max(a, b)));
  }
  struct Case {
    const char* name;
    bool (*holds)(float, float);
  };
  auto unordered = [](float a, float b) { return a != a || b != b; };
  const Case cases[] = {
      {"eq", [](float a, float b) { return a == b; }},
      {"ne", [](float a, float b) { return a < b || a > b; }},
      {"lt", [](float a, float b) { return a < b; }},
      {"ge", [](float a, float b) { return a >= b; }},
      {"equ", [](float a, float b) { return !(a < b || a > b); }},
      {"neu", [](float a, float b) { return a != b; }},
      {"ltu", [](float a, float b) { return !(a >= b); }},
      {"geu", [](float a, float b) { return !(a < b); }},
      {"gtu", [](float a, float b) { return !(a <= b); }},
      {"leu", [](float a, float b) { return !(a > b); }},
      {"nan", unordered},
      {"num", [](float a, float b) { return a == a && b == b; }},
  };
  for (const Case& c : cases) {
    const auto found =
        test::run(instruction(std::string("setp.") + c.name + ".f32 %d, %a, %b;", 32, 2, "pred"), in);
    for (std::size_t n = 0; n < found.size(); ++n) {
      CAPTURE(c.name, f32(in[0][n]), f32(in[1][n]));
      REQUIRE((found[n] != 0) == c.holds(f32(in[0][n]), f32(in[1][n])));
    }
  }
}

TEST_CASE("approximations stay within the documented error", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto in = operands(random, 32, 1, 4096);
  struct Case {
    const char* op;
    double (*f)(double);
    double relative, absolute; // one of them must hold
    double from, to;
  };
  const Case cases[] = {
      {"ex2.approx.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0, -140, 127},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }, 0x1p-22, 0x1p-22, 0x1p-126, 1e38},
      {"sin.approx.f32", [](double x) { return std::sin(x); }, 0, 0x1p-20, -3.14, 3.14},
      {"cos.approx.f32", [](double x) { return std::cos(x); }, 0, 0x1p-20, -3.14, 3.14},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, 0, -100, 100},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 0x1p-22, 0, 0x1p-120, 1e38},
      {"rcp.approx.f32", [](double x) { return 1 / x; }, 0x1p-23, 0, 0x1p-120, 1e37},
      {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, 0, 0, 1e38},
  };
  for (const Case& c : cases) {
    const auto found = test::run(instruction(std::string(c.op) + " %d, %a;", 32, 1), in);
    int tested = 0;
    for (std::size_t n = 0; n < found.size(); ++n) {
      const double a = f32(in[0][n]);
      if (!(a >= c.from && a <= c.to)) continue;
      ++tested;
      const double expected = c.f(a), error = std::fabs(f32(found[n]) - expected);
      CAPTURE(c.op, a, expected, f32(found[n]));
      REQUIRE((error <= c.relative * std::fabs(expected) || error <= c.absolute || error < 0x1p-148));
    }
    CHECK(tested > 100);
  }
}

TEST_CASE("emulated rsqrt.approx.f64 flushes subnormal numbers with .ftz only", "[emulator]") {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<std::uint64_t>> in = {
      {bits(0x1p-1074), bits(-0x1p-1074), bits(0x1p-1024), bits(2), bits(0), bits(-0.0), bits(infinity)}};
  auto found = [&](const char* text) {
    std::vector<double> values;
    for (std::uint64_t v : test::run(instruction(text, 64, 1), in))
      values.push_back(std::bit_cast<double>(v));
    return values;
  };
  auto v = found("rsqrt.approx.f64 %d, %a;");
  CHECK(v[0] == 0x1p537);
  CHECK(v[1] != v[1]);
  CHECK(v[2] == 0x1p512);
  CHECK(std::fabs(v[3] - std::sqrt(0.5)) <= 0x1p-52);
  CHECK(v[4] == infinity);
  CHECK(v[5] == -infinity);
  CHECK(v[6] == 0);
  v = found("rsqrt.approx.ftz.f64 %d, %a;");
  CHECK(v[0] == infinity);
  CHECK(v[1] == -infinity);
  CHECK(v[2] == infinity);
  CHECK(std::fabs(v[3] - std::sqrt(0.5)) <= 0x1p-20);
  CHECK((bits(v[3]) & 0xffffffff) == 0);
  CHECK(v[6] == 0);
}
