// Tests every floating-point instruction that rounds against MPFR, with every rounding and modifier.
#include "one_instruction.h"
#include "test_seed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <mpfr.h>

using namespace kiln;

namespace {

using U = std::uint64_t;

// A format whose values are 0.1xxx * 2^e with `precision` bits, least <= e <= most; less precise below.
struct Format {
  const char* name;
  int width, precision, least, most;
  bool has_infinity = true;
  U nan = 0; // the canonical NaN; for f64 any NaN is right
  int mantissa() const { return precision - 1; }
  int bias() const { return (1 << (width - precision - 1)) - 1; }
  U top_exponent() const { return (U(1) << (width - precision)) - 1; }
  U sign_bit() const { return U(1) << (width - 1); }
};
const Format f16{"f16", 16, 11, -23, 16, true, 0x7fff}, bf16{"bf16", 16, 8, -132, 128, true, 0x7fff},
    f32{"f32", 32, 24, -148, 128, true, 0x7fffffff}, f64{"f64", 64, 53, -1073, 1024},
    e4m3{"e4m3", 8, 4, -8, 9, false, 0x7f}, e5m2{"e5m2", 8, 3, -15, 16, true, 0x7f};

double decode(const Format& f, U bits) {
  const U exponent = bits >> f.mantissa() & f.top_exponent(), fraction = bits & ((U(1) << f.mantissa()) - 1);
  const double sign = bits & f.sign_bit() ? -1 : 1;
  if (f.has_infinity && exponent == f.top_exponent()) return fraction ? NAN : sign * INFINITY;
  if (!f.has_infinity && (bits & (f.sign_bit() - 1)) == f.nan) return NAN;
  if (!exponent) return sign * std::ldexp(double(fraction), 1 - f.bias() - f.mantissa());
  return sign * std::ldexp(double(fraction | U(1) << f.mantissa()), int(exponent) - f.bias() - f.mantissa());
}
U encode(const Format& f, double v) { // `v` is a value of the format
  const U sign = std::signbit(v) ? f.sign_bit() : 0;
  const double a = std::fabs(v);
  if (std::isinf(a)) return sign | f.top_exponent() << f.mantissa();
  if (a == 0) return sign;
  int e;
  std::frexp(a, &e);
  const int exponent = std::max(e - 1 + f.bias(), 1);
  const U fraction = static_cast<U>(std::ldexp(a, f.bias() + f.mantissa() - exponent));
  return sign |
         (fraction >> f.mantissa() ? U(exponent) << f.mantissa() | (fraction & ((U(1) << f.mantissa()) - 1))
                                   : fraction);
}
bool subnormal(const Format& f, double v) { return v != 0 && std::fabs(v) < std::ldexp(1.0, 1 - f.bias()); }

class Number {
public:
  explicit Number(int precision) { mpfr_init2(value, precision); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  ~Number() { mpfr_clear(value); }
  mpfr_t value;
};

using Operation = std::function<int(mpfr_t to, mpfr_t a, mpfr_t b, mpfr_t c, mpfr_rnd_t)>;

// The result of `operation` on exact numbers in the format, rounded once: where the second rounding is
// coarser, MPFR's ternary value says to which side the first one went.
double rounded(const Format& f, const Operation& operation, mpfr_t a, mpfr_t b, mpfr_t c, mpfr_rnd_t mode) {
  Number result(f.precision);
  int side = operation(result.value, a, b, c, mode);
  const auto least = mpfr_get_emin(), most = mpfr_get_emax();
  mpfr_set_emin(f.least), mpfr_set_emax(f.most);
  side = mpfr_check_range(result.value, side, mode);
  mpfr_subnormalize(result.value, side, mode);
  mpfr_set_emin(least), mpfr_set_emax(most);
  return mpfr_get_d(result.value, MPFR_RNDN);
}

struct Modifiers {
  bool flush = false, saturate = false, relu = false, finite = false;
  std::string text() const {
    return std::string(flush ? ".ftz" : "") + (saturate ? ".sat" : "") + (relu ? ".relu" : "");
  }
};
double modified(const Format& f, double v, Modifiers m) {
  if (m.saturate) v = v > 0 ? std::min(v, 1.0) : 0;
  if (m.relu && v <= 0) v = 0;
  if (m.flush && subnormal(f, v)) v = std::copysign(0.0, v);
  const double largest = f.has_infinity ? std::ldexp(2 - std::ldexp(1.0, -f.mantissa()), f.bias()) : 448;
  if (m.finite && std::fabs(v) > largest) v = std::copysign(largest, v);
  return v;
}
void require_equal(const Format& f, U found, double expected) {
  if (expected != expected && f.nan)
    REQUIRE(found == f.nan);
  else if (expected != expected)
    REQUIRE(std::isnan(decode(f, found)));
  else
    REQUIRE(found == encode(f, expected));
}

struct Mode {
  const char* name;
  mpfr_rnd_t mpfr;
};
const Mode nearest{"rn", MPFR_RNDN}, zero{"rz", MPFR_RNDZ}, down{"rm", MPFR_RNDD}, up{"rp", MPFR_RNDU};
const std::vector<Mode> all_modes{nearest, zero, down, up};

std::vector<std::vector<U>> operands(std::mt19937_64& random, int width, std::size_t count) {
  std::vector<std::vector<U>> in(count);
  for (auto& column : in)
    for (int k = 0; k < 1024; ++k)
      column.push_back(test::random_bits(random, width, true));
  return in;
}
std::string type_of(int width) { return "b" + std::to_string(std::max(width, 16)); }

struct Arithmetic {
  const char* name;
  std::size_t operands;
  Operation operation;
};
const Arithmetic add{"add", 2, [](auto r, auto a, auto b, auto, auto m) { return mpfr_add(r, a, b, m); }},
    sub{"sub", 2, [](auto r, auto a, auto b, auto, auto m) { return mpfr_sub(r, a, b, m); }},
    mul{"mul", 2, [](auto r, auto a, auto b, auto, auto m) { return mpfr_mul(r, a, b, m); }},
    fma_{"fma", 3, [](auto r, auto a, auto b, auto c, auto m) { return mpfr_fma(r, a, b, c, m); }},
    quotient{"div", 2, [](auto r, auto a, auto b, auto, auto m) { return mpfr_div(r, a, b, m); }},
    root{"sqrt", 1, [](auto r, auto a, auto, auto, auto m) { return mpfr_sqrt(r, a, m); }},
    reciprocal{"rcp", 1, [](auto r, auto a, auto, auto, auto m) { return mpfr_ui_div(r, 1, a, m); }};

void check_arithmetic(std::mt19937_64& random, const Arithmetic& op, const Format& f, const Mode& mode,
                      Modifiers m, int lanes = 1) {
  const auto width = f.width * lanes;
  const std::string text = std::string(op.name) + "." + mode.name + m.text() + "." + f.name +
                           (lanes == 2 ? "x2" : "") + " %d, %a" + (op.operands > 1 ? ", %b" : "") +
                           (op.operands > 2 ? ", %c;" : ";");
  auto in = operands(random, f.width, op.operands);
  if (lanes == 2)
    for (auto& column : in)
      for (U& v : column)
        v |= test::random_bits(random, f.width, true) << f.width;
  const auto found =
      test::run({text, type_of(width), std::vector<std::string>(op.operands, type_of(width))}, in);
  Number x(53), y(53), z(53);
  for (std::size_t n = 0; n < found.size(); ++n)
    for (int lane = 0; lane < lanes; ++lane) {
      double values[3] = {0, 0, 0};
      const auto part = [&](U bits) { return bits >> (lane * f.width) & (f.sign_bit() * 2 - 1); };
      for (std::size_t k = 0; k < op.operands; ++k) {
        values[k] = decode(f, part(in[k][n]));
        if (m.flush && subnormal(f, values[k])) values[k] = std::copysign(0.0, values[k]);
      }
      mpfr_set_d(x.value, values[0], MPFR_RNDN), mpfr_set_d(y.value, values[1], MPFR_RNDN),
          mpfr_set_d(z.value, values[2], MPFR_RNDN);
      const double expected = modified(f, rounded(f, op.operation, x.value, y.value, z.value, mode.mpfr), m);
      CAPTURE(text, values[0], values[1], values[2], expected, decode(f, part(found[n])));
      require_equal(f, part(found[n]), expected);
    }
}

const Operation same = [](auto r, auto a, auto, auto, auto m) { return mpfr_set(r, a, m); };

// Checks single values and the lanes of packed results. Operands and results of 8 bits are in wider
// registers.
void check_conversion(std::mt19937_64& random, const Format& to, const Format& from,
                      const std::string& rounding, mpfr_rnd_t mode, Modifiers m) {
  const std::string text = "cvt" + (rounding.empty() ? "" : "." + rounding) + m.text() + "." + to.name + "." +
                           from.name + " %d, %a;";
  const auto in = operands(random, from.width, 1);
  const auto found = test::run({text, type_of(to.width), {type_of(from.width)}}, in);
  Number x(53);
  for (std::size_t n = 0; n < found.size(); ++n) {
    double v = decode(from, in[0][n]);
    if (m.flush && from.width == 32 && subnormal(from, v)) v = std::copysign(0.0, v);
    mpfr_set_d(x.value, v, MPFR_RNDN);
    Modifiers after = m;
    after.flush &= to.width == 32;
    const double expected = modified(to, rounded(to, same, x.value, x.value, x.value, mode), after);
    CAPTURE(text, v, expected, decode(to, found[n]));
    require_equal(to, found[n], expected);
  }
}
void check_packing(std::mt19937_64& random, const Format& to, const Mode& mode, Modifiers m) {
  const std::string text = std::string("cvt.") + mode.name + (m.finite ? ".satfinite" : "") + m.text() + "." +
                           to.name + "x2.f32 %d, %a, %b;";
  const auto in = operands(random, 32, 2);
  const auto found = test::run({text, type_of(2 * to.width), {"b32", "b32"}}, in);
  Number x(53);
  for (std::size_t n = 0; n < found.size(); ++n)
    for (std::size_t k = 0; k < 2; ++k) { // the first operand is the upper half
      const double v = decode(f32, in[k][n]);
      mpfr_set_d(x.value, v, MPFR_RNDN);
      const double expected = modified(to, rounded(to, same, x.value, x.value, x.value, mode.mpfr), m);
      CAPTURE(text, v, expected, k);
      require_equal(to, found[n] >> (k ? 0 : to.width) & (to.sign_bit() * 2 - 1), expected);
    }
}

const char* const integers[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
int bits_of(const std::string& type) { return std::atoi(type.c_str() + 1); }
bool is_signed(const std::string& type) { return type[0] == 's'; }
__int128 value_of(U bits, const std::string& type) {
  const int shift = 64 - bits_of(type);
  return is_signed(type) ? static_cast<__int128>(static_cast<std::int64_t>(bits << shift) >> shift)
                         : static_cast<__int128>(bits << shift >> shift);
}
__int128 lowest(const std::string& type) {
  return is_signed(type) ? -(__int128(1) << (bits_of(type) - 1)) : 0;
}
__int128 highest(const std::string& type) { return (__int128(1) << (bits_of(type) - is_signed(type))) - 1; }
// The value as a register holds it, which has the width of the type or 16 bits.
U in_register(__int128 v, int width) {
  return static_cast<U>(v) & (width >= 64 ? ~U(0) : (U(1) << width) - 1);
}

std::vector<std::vector<U>> integer_operands(std::mt19937_64& random, int width) {
  std::vector<std::vector<U>> in(1);
  for (int k = 0; k < 512; ++k)
    in[0].push_back(test::random_bits(random, width, false));
  return in;
}

} // namespace

TEST_CASE("emulated arithmetic equals MPFR's in every rounding", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (const Mode& mode : all_modes) {
    for (const Arithmetic* op : {&add, &sub, &mul, &fma_, &quotient, &root, &reciprocal})
      check_arithmetic(random, *op, f64, mode, {});
    for (bool flush : {false, true}) {
      for (const Arithmetic* op : {&quotient, &root, &reciprocal})
        check_arithmetic(random, *op, f32, mode, {.flush = flush});
      for (const Arithmetic* op : {&add, &sub, &mul, &fma_})
        for (bool saturate : {false, true})
          check_arithmetic(random, *op, f32, mode, {.flush = flush, .saturate = saturate});
    }
  }
  for (int lanes : {1, 2}) {
    for (const Arithmetic* op : {&add, &sub, &mul, &fma_}) {
      for (bool flush : {false, true})
        for (bool saturate : {false, true})
          check_arithmetic(random, *op, f16, nearest, {.flush = flush, .saturate = saturate}, lanes);
      check_arithmetic(random, *op, bf16, nearest, {}, lanes);
    }
    check_arithmetic(random, fma_, f16, nearest, {.relu = true}, lanes);
    check_arithmetic(random, fma_, f16, nearest, {.flush = true, .relu = true}, lanes);
    check_arithmetic(random, fma_, bf16, nearest, {.relu = true}, lanes);
  }
}

TEST_CASE("emulated conversions between floats equal MPFR's", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (const Mode& mode : all_modes) {
    for (bool saturate : {false, true}) {
      for (bool flush : {false, true})
        check_conversion(random, f32, f64, mode.name, mode.mpfr, {.flush = flush, .saturate = saturate});
      check_conversion(random, f16, f64, mode.name, mode.mpfr, {.saturate = saturate});
    }
  }
  for (const Mode& mode : {nearest, zero}) {
    for (bool relu : {false, true}) {
      check_conversion(random, f16, f32, mode.name, mode.mpfr, {.relu = relu});
      check_conversion(random, bf16, f32, mode.name, mode.mpfr, {.relu = relu});
      for (bool finite : {false, true}) {
        check_packing(random, f16, mode, {.relu = relu, .finite = finite});
        check_packing(random, bf16, mode, {.relu = relu, .finite = finite});
      }
    }
    check_conversion(random, f16, f32, mode.name, mode.mpfr, {.flush = true});
    check_conversion(random, f16, f32, mode.name, mode.mpfr, {.saturate = true});
  }
  for (bool relu : {false, true}) {
    check_packing(random, e4m3, nearest, {.relu = relu, .finite = true});
    check_packing(random, e5m2, nearest, {.relu = relu, .finite = true});
  }
  for (bool saturate : {false, true}) {
    check_conversion(random, f32, f16, "", MPFR_RNDN, {.saturate = saturate});
    check_conversion(random, f64, f16, "", MPFR_RNDN, {.saturate = saturate});
    check_conversion(random, f64, f32, "", MPFR_RNDN, {.saturate = saturate});
  }
  check_conversion(random, f32, f16, "", MPFR_RNDN, {.flush = true});
  check_conversion(random, f64, f32, "", MPFR_RNDN, {.flush = true});
  check_conversion(random, f32, bf16, "", MPFR_RNDN, {});

  const auto in = operands(random, 32, 1);
  const auto found = test::run({"cvt.rna.tf32.f32 %d, %a;", "b32", {"b32"}}, in);
  for (std::size_t n = 0; n < found.size();
       ++n) { // to nearest, ties away from zero: adds half of the last bit
    if (std::isnan(decode(f32, in[0][n]))) continue;
    CAPTURE(decode(f32, in[0][n]));
    const bool infinite = std::isinf(decode(f32, in[0][n]));
    REQUIRE((found[n] & ~U(0x1fff)) == (infinite ? in[0][n] : (in[0][n] + 0x1000) & ~U(0x1fff)));
  }
}

TEST_CASE("emulated rounding to integers, as floats and as integers, equals MPFR's", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (const auto& [name, mode] :
       {Mode{"rni", MPFR_RNDN}, Mode{"rzi", MPFR_RNDZ}, Mode{"rmi", MPFR_RNDD}, Mode{"rpi", MPFR_RNDU}}) {
    for (const Format* f : {&f16, &f32, &f64})
      for (const bool flush : {false, true}) {
        if (flush && f != &f32) continue;
        auto in = operands(random, f->width, 1);
        for (std::size_t n = 0; n < 512; ++n) // halves and quarters
          in[0][n] = encode(*f, double(static_cast<std::int64_t>(random() % 1001) - 500) / 4);
        Number x(53), whole(53);
        const auto reference = [&](U bits) {
          double v = decode(*f, bits);
          if (flush && subnormal(*f, v)) v = std::copysign(0.0, v);
          mpfr_set_d(x.value, v, MPFR_RNDN);
          mpfr_rint(whole.value, x.value, mode);
          return mpfr_get_d(whole.value, MPFR_RNDN);
        };
        const std::string start = std::string("cvt.") + name + (flush ? ".ftz." : ".");
        const auto found = test::run(
            {start + f->name + "." + f->name + " %d, %a;", type_of(f->width), {type_of(f->width)}}, in);
        for (std::size_t n = 0; n < found.size(); ++n) {
          CAPTURE(start, f->name, decode(*f, in[0][n]));
          require_equal(*f, found[n], reference(in[0][n]));
        }
        for (const std::string type : integers) {
          const int width = std::max(bits_of(type), 16);
          const auto converted =
              test::run({start + type + "." + f->name + " %d, %a;", type_of(width), {type_of(f->width)}}, in);
          for (std::size_t n = 0; n < converted.size(); ++n) {
            const double v = reference(in[0][n]);
            CAPTURE(start, type, f->name, decode(*f, in[0][n]), v);
            // NaN is 0, but the instructions of 64 bits give the sign bit
            const bool wide = f == &f64 || bits_of(type) == 64;
            const __int128 expected = v != v ? (wide ? __int128(1) << (bits_of(type) - 1) : 0)
                                      : v >= std::ldexp(1.0, 100) ? highest(type)
                                      : v <= -std::ldexp(1.0, 100)
                                          ? lowest(type)
                                          : std::clamp(static_cast<__int128>(v), lowest(type), highest(type));
            REQUIRE(in_register(value_of(converted[n], type), 64) ==
                    in_register(value_of(static_cast<U>(expected), type), 64));
          }
        }
      }
  }
}

TEST_CASE("emulated conversions from integers equal MPFR's and exact integers", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (const std::string from : integers) {
    const int width = std::max(bits_of(from), 16);
    const auto in = integer_operands(random, bits_of(from));
    Number x(64);
    for (const Mode& mode : all_modes)
      for (const Format* f : {&f16, &bf16, &f32, &f64}) {
        const std::string text = std::string("cvt.") + mode.name + "." + f->name + "." + from + " %d, %a;";
        const auto found = test::run({text, type_of(f->width), {type_of(width)}}, in);
        for (std::size_t n = 0; n < found.size(); ++n) {
          const __int128 v = value_of(in[0][n], from);
          if (is_signed(from))
            mpfr_set_sj(x.value, static_cast<std::intmax_t>(v), MPFR_RNDN);
          else
            mpfr_set_uj(x.value, static_cast<std::uintmax_t>(v), MPFR_RNDN);
          CAPTURE(text, in[0][n]);
          require_equal(*f, found[n], rounded(*f, same, x.value, x.value, x.value, mode.mpfr));
        }
      }
    for (const std::string to : integers)
      for (bool saturate : {false, true}) {
        const std::string text =
            std::string("cvt") + (saturate ? ".sat." : ".") + to + "." + from + " %d, %a;";
        const int out = std::max(bits_of(to), 16);
        const auto found = test::run({text, type_of(out), {type_of(width)}}, in);
        for (std::size_t n = 0; n < found.size(); ++n) {
          const __int128 v = value_of(in[0][n], from);
          const __int128 expected =
              saturate ? std::clamp(v, lowest(to), highest(to)) : value_of(static_cast<U>(v), to);
          CAPTURE(text, in[0][n]);
          REQUIRE(in_register(value_of(found[n], to), 64) == in_register(expected, 64));
        }
      }
  }
}

TEST_CASE("emulated approximations are within the documented error of MPFR's values", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  struct Case {
    const char* text;
    const Format& f;
    std::size_t operands;
    Operation exact;
    double ulps;            // relative to the exact result, or
    double absolute;        // the larger one applies
    double lowest, highest; // magnitudes of the last operand for which the bound is documented
  };
  const auto exp2 = [](auto r, auto a, auto, auto, auto m) { return mpfr_exp2(r, a, m); };
  const auto tanh = [](auto r, auto a, auto, auto, auto m) { return mpfr_tanh(r, a, m); };
  const auto rsqrt = [](auto r, auto a, auto, auto, auto m) { return mpfr_rec_sqrt(r, a, m); };
  const Case cases[] = {
      {"ex2.approx.ftz.f32 %d, %a;", f32, 1, exp2, 2, 0, 0, 120},
      {"lg2.approx.f32 %d, %a;", f32, 1,
       [](auto r, auto a, auto, auto, auto m) { return mpfr_log2(r, a, m); }, 3, 0x1p-22, 0x1p-126, 0x1p127},
      {"sin.approx.f32 %d, %a;", f32, 1, [](auto r, auto a, auto, auto, auto m) { return mpfr_sin(r, a, m); },
       0, 0x1p-20, 0, 3.14},
      {"cos.approx.f32 %d, %a;", f32, 1, [](auto r, auto a, auto, auto, auto m) { return mpfr_cos(r, a, m); },
       0, 0x1p-20, 0, 3.14},
      {"tanh.approx.f32 %d, %a;", f32, 1, tanh, 0x1p13, 0, 0, 0x1p127}, // 2^-11 relative
      {"tanh.approx.f16 %d, %a;", f16, 1, tanh, 2, 0x1p-10, 0, 60000},
      {"tanh.approx.bf16 %d, %a;", bf16, 1, tanh, 2, 0x1p-8, 0, 0x1p127},
      {"ex2.approx.f16 %d, %a;", f16, 1, exp2, 2, 0x1p-9, 0, 15},
      {"ex2.approx.ftz.bf16 %d, %a;", bf16, 1, exp2, 1, 0, 0, 120},
      {"rsqrt.approx.f32 %d, %a;", f32, 1, rsqrt, 4, 0, 0x1p-126, 0x1p127},
      {"rsqrt.approx.f64 %d, %a;", f64, 1, rsqrt, 2, 0, 0x1p-1000, 0x1p1000},
      {"rsqrt.approx.ftz.f64 %d, %a;", f64, 1, rsqrt, 0x1p33, 0, 0x1p-1000, 0x1p1000}, // about 20 bits
      {"rcp.approx.f32 %d, %a;", f32, 1, reciprocal.operation, 1, 0, 0x1p-126, 0x1p126},
      {"rcp.approx.ftz.f64 %d, %a;", f64, 1, reciprocal.operation, 0x1p33, 0, 0x1p-1000, 0x1p1000},
      {"sqrt.approx.f32 %d, %a;", f32, 1, root.operation, 2, 0, 0x1p-126, 0x1p127},
      {"div.approx.f32 %d, %a, %b;", f32, 2, quotient.operation, 2, 0, 0x1p-126, 0x1p126},
      {"div.full.f32 %d, %a, %b;", f32, 2, quotient.operation, 2, 0, 0x1p-126, 0x1p126},
  };
  for (const Case& c : cases) {
    auto in = operands(random, c.f.width, c.operands);
    for (std::size_t n = 0; n < 512; ++n) // values of usual magnitudes
      in.back()[n] = encode(c.f, [&] {
        const double v = (double(random() % 2'000'001) - 1e6) / 1e5;
        Number x(53), y(53);
        mpfr_set_d(x.value, v, MPFR_RNDN);
        return rounded(c.f, same, x.value, x.value, x.value, MPFR_RNDN);
      }());
    const auto found =
        test::run({c.text, type_of(c.f.width), std::vector<std::string>(c.operands, type_of(c.f.width))}, in);
    Number x(53), y(53), exact(100);
    int tested = 0;
    for (std::size_t n = 0; n < found.size(); ++n) {
      const double last = decode(c.f, in.back()[n]), first = decode(c.f, in[0][n]);
      if (!(std::fabs(last) >= c.lowest && std::fabs(last) <= c.highest) || !std::isfinite(first)) continue;
      if (subnormal(c.f, first) || subnormal(c.f, last)) continue;
      mpfr_set_d(x.value, first, MPFR_RNDN), mpfr_set_d(y.value, last, MPFR_RNDN);
      c.exact(exact.value, x.value, y.value, y.value, MPFR_RNDN);
      const double expected = mpfr_get_d(exact.value, MPFR_RNDN), v = decode(c.f, found[n]);
      CAPTURE(c.text, first, last, expected, v);
      if (expected != expected || std::isinf(expected)) {
        REQUIRE((expected != expected ? v != v : v == expected));
        continue;
      }
      const double largest = std::ldexp(1.0, c.f.bias()), smallest = std::ldexp(1.0, 1 - c.f.bias());
      if (std::fabs(expected) >= largest || std::fabs(expected) < smallest)
        continue; // no bound is documented
      ++tested;
      int e;
      std::frexp(expected, &e);
      const double ulp = std::ldexp(1.0, e - c.f.precision);
      REQUIRE(std::fabs(v - expected) <= std::max(c.ulps * ulp, c.absolute));
    }
    CAPTURE(c.text);
    CHECK(tested > 150);
  }
}
