// Emits exp, exp2, expm1, sigmoid, tanh and the Gaussian.
// The argument is reduced to [-ln2/2, ln2/2], or to twice that range if two equal powers of two scale the
// result, and then one minimax polynomial is evaluated.
//
// Method: n = round(x / ln 2), r = x - n ln 2 in two steps (Cody and Waite, "Software Manual for the
// Elementary Functions", 1980), e^x = 2^n e^r. The polynomials are from minimax.py.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/exp_core.h>
#include <kiln/jit/emit/math/functions.h>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

// Reduces x when n and 2^n are given, where n counts units of `unit` ln 2.
ExpReduction reduce_by_ln2(const MathBuilder& m, Value* x, MathBuilder::Rounded n, double unit = 1) {
  Value* high = m.fma(n.n, -unit * m.pick(0x1.62e43p-1, 0x1.62e42fefa39efp-1), x);
  const double ln2_low = unit * m.pick(-0x1.05c61p-29, 0x1.abc9e3b39803fp-56);
  return {n.n, n.power, m.fma(n.n, -ln2_low, high), high, ln2_low};
}

} // namespace

ExpReduction reduce_by_ln2(const MathBuilder& m, Value* x) {
  return reduce_by_ln2(m, x, m.round_product(x, 0x1.71547652b82fep+0));
}

namespace {

// e^r = 1 + r + r^2 q(r), where q has these coefficients.
Value* exp_of_remainder(const MathBuilder& m, Value* r, llvm::ArrayRef<double> coefficients) {
  Value* q = m.polynomial(coefficients, r);
  Value* one = m.constant(1);
  Value* slope = m.mul_add(q, r, one);
  // Even without FMA hardware, f32 rounds only once in the last step, which the bound of sigmoid needs.
  return m.is_double() ? m.mul_add(slope, r, one) : m.fma(slope, r, one);
}

} // namespace

Value* exp_of_remainder(const MathBuilder& m, Value* r) {
  return exp_of_remainder(m, r, m.pick(co::exp_f32, co::exp_f64));
}

namespace {

// 2^(j / 16) for j = 0 .. 15, which fill one register.
constexpr double sixteenths[] = {0x1p+0,        0x1.0b5586p+0, 0x1.172b84p+0, 0x1.2387a6p+0,
                                 0x1.306fep+0,  0x1.3dea64p+0, 0x1.4bfdaep+0, 0x1.5ab07ep+0,
                                 0x1.6a09e6p+0, 0x1.7a1148p+0, 0x1.8ace54p+0, 0x1.9c4918p+0,
                                 0x1.ae89fap+0, 0x1.c199bep+0, 0x1.d5818ep+0, 0x1.ea4afap+0};

// Adding it rounds an f32 to a multiple of 1/16 and leaves the number of sixteenths in the low bits.
constexpr double to_sixteenths = 0x1.8p19;

// Returns 2^k (1 + slope r + r^2 q(r)), where k is the multiple of 1/16 in `shifted` (Tang, "Table-driven
// implementation of the exponential function in IEEE floating-point arithmetic", 1989). The instruction that
// scales takes the floor of k, and one permute of a register gives the rest. This saves two multiplications
// compared with the polynomial over all of [-ln2/2, ln2/2], and a sixth of the time on Zen 5. If k is too
// large to have sixteenths, the result is infinity, zero or NaN for any r that is not NaN.
Value* power_by_table(const MathBuilder& m, Value* shifted, Value* k, Value* r, double slope,
                      llvm::ArrayRef<double> q) {
  Value* part = m.look_up(sixteenths, m.bits(shifted));
  Value* rest = m.fma(m.polynomial(q, r), r, m.constant(slope));
  return m.scale(m.fma(m.mul(part, r), rest, part), k);
}

// (2^h)^2 p, rounded once because the first product is exact. For |h| <= 126 this needs no instruction that
// scales, although 2^(2 h) alone may not be a normal number.
Value* scale_twice(const MathBuilder& m, Value* p, const MathBuilder::Rounded& h) {
  return m.mul(m.mul(p, h.power), h.power);
}

// e^x of an f32 between the bounds below, by an even power of two and a polynomial over [-ln2, ln2]. The
// polynomial has one term more than over half of that range, but this takes five instructions fewer than two
// different powers of two.
Value* exp_in_halves(const MathBuilder& m, Value* x) {
  const MathBuilder::Rounded h = m.round_product(x, 0x1.71547652b82fep-1);
  Value* r = reduce_by_ln2(m, x, h, 2).r;
  return scale_twice(m, exp_of_remainder(m, r, co::exp_wide_f32), h);
}

// Bounds on x, which differ from x only if the result is zero or infinity in any case.
Value* above_underflow(const MathBuilder& m, Value* x) { return m.at_least(x, m.pick(-104.5, -746)); }
Value* below_overflow(const MathBuilder& m, Value* x) { return m.at_most(x, m.pick(89, 710)); }

// A little more accurate than power_by_table.
Value* exp_by_polynomial(const MathBuilder& m, Value* x) {
  ExpReduction e = reduce_by_ln2(m, x);
  if (m.scales_any()) e.r = m.within(e.r, 0.5);
  return m.scale(exp_of_remainder(m, e.r), e.n);
}

} // namespace

Value* emit_exp(const MathBuilder& m, Value* x) {
  if (m.scales_any() && !m.is_double()) {
    Value* shifted = m.fma(x, m.constant(0x1.71547652b82fep+0), m.constant(to_sixteenths));
    Value* k = m.sub(shifted, to_sixteenths);
    ExpReduction e = reduce_by_ln2(m, x, {k, nullptr});
    return power_by_table(m, shifted, k, m.within(e.r, 0.5), 1, co::exp_table_f32);
  }
  if (m.scales_any()) return exp_by_polynomial(m, x);
  x = above_underflow(m, below_overflow(m, x));
  return m.is_double() ? exp_by_polynomial(m, x) : exp_in_halves(m, x);
}

Value* emit_exp2(const MathBuilder& m, Value* x) {
  if (m.scales_any() && !m.is_double()) {
    Value* shifted = m.add(x, to_sixteenths);
    Value* k = m.sub(shifted, to_sixteenths);
    return power_by_table(m, shifted, k, m.within(m.sub(x, k), 0.5), 0x1.62e42fefa39efp-1,
                          co::exp2_table_f32);
  }
  if (!m.scales_any()) x = m.at_least(m.at_most(x, m.pick(129, 1025)), m.pick(-151, -1076));
  if (!m.is_double()) {
    const MathBuilder::Rounded h = m.round_product(x, 0.5);
    Value* r = m.mul_add(h.n, m.constant(-2), x); // exact
    Value* slope = m.mul_add(m.polynomial(co::exp2_wide_f32, r), r, m.constant(0x1.62e43p-1));
    return scale_twice(m, m.mul_add(slope, r, m.constant(1)), h);
  }
  Value* n = m.round(x);
  Value* r = m.sub(x, n);
  if (m.scales_any()) r = m.within(r, 0.5);
  Value* q = m.polynomial(co::exp2_f64, r);
  return m.scale(m.mul_add(q, r, m.constant(1)), n);
}

namespace {

// e^r - 1 with the rounding error of r added back.
Value* expm1_of_remainder(const MathBuilder& m, const ExpReduction& e) {
  Value* tail = m.fma(e.n, -e.ln2_low, m.sub(e.high, e.r));
  Value* q = m.polynomial(m.pick(co::expm1_f32, co::expm1_f64), e.r);
  return m.add(e.r, m.mul_add(m.mul(e.r, e.r), q, tail));
}

} // namespace

Value* emit_expm1(const MathBuilder& m, Value* x) {
  Value* bounded = m.at_least(m.at_most(x, m.pick(89, 710)), m.pick(-20, -40));
  ExpReduction e = reduce_by_ln2(m, bounded);
  Value* p = expm1_of_remainder(m, e);
  // 2^n p + (2^n - 1), computed as a half and doubled at the end because 2^128 (2^1024) is not a number.
  Value* half = m.power_of_two(m.sub(e.n, 1));
  Value* sum = m.mul(m.mul_add(half, p, m.sub(half, 0.5)), 2);
  return m.with_sign_of(m.select(m.equal(e.n, 0), p, sum), x);
}

Value* emit_sigmoid(const MathBuilder& m, Value* x) {
  // For negative x, z / (1 + z) keeps the relative accuracy that 1 / (1 + e^-x) loses to overflow. Twice the
  // error of z may reach the result, so z is computed by the more accurate method.
  Value* z = m.neg(m.abs(x));
  z = exp_by_polynomial(m, m.scales_any() ? z : above_underflow(m, z));
  Value* sum = m.add(z, 1);
  Value* quotient = m.div(m.select(m.less(x, 0), z, m.constant(1)), sum);
  // For negative x, the rounding error of 1 + z, divided by 1 + z. For positive x, a harmless part of it.
  Value* error = m.mul(m.sub(z, m.sub(sum, 1)), m.sub(m.constant(1), quotient));
  return m.mul_add(m.neg(quotient), error, quotient);
}

// The rounding error of x^2 is computed and corrected.
Value* emit_gaussian(const MathBuilder& m, Value* x) {
  Value* square = m.mul(x, x);
  Value* lost = m.fma(x, x, m.neg(square));
  if (!m.scales_any() || m.is_double()) {
    Value* power = emit_math(m.ir(), m.options(), MathFn::Exp, m.mul(square, -0.5)); // by hardware, if it can
    return m.fma(power, m.mul(lost, -0.5), power);
  }
  // The remainder is in units of -1/2.
  constexpr double q[] = {co::exp_table_f32[0] / 4, co::exp_table_f32[1] / -8};
  Value* shifted = m.fma(square, m.constant(-0x1.71547652b82fep-1), m.constant(to_sixteenths));
  Value* k = m.sub(shifted, to_sixteenths);
  Value* r = reduce_by_ln2(m, square, {k, nullptr}, -2).r;
  return power_by_table(m, shifted, k, m.add(r, lost), -0.5, q);
}

Value* emit_tanh(const MathBuilder& m, Value* x) {
  Value* a = m.at_most(m.abs(x), m.pick(10, 22));
  ExpReduction e = reduce_by_ln2(m, m.mul(a, 2));
  if (m.is_double()) {
    Value* p = expm1_of_remainder(m, e);
    Value* t = m.select(m.equal(e.n, 0), p, m.mul_add(e.power, p, m.sub(e.power, 1)));
    return m.with_sign_of(m.div(t, m.add(t, 2)), x);
  }
  Value* power = m.mul(exp_of_remainder(m, e.r), e.power);
  Value* large = m.sub(m.constant(1), m.div(m.constant(2), m.add(power, 1)));
  Value* square = m.mul(a, a);
  Value* small = m.mul_add(m.mul(a, square), m.polynomial(co::tanh_f32, square), a);
  return m.with_sign_of(m.select(m.less(a, 0.625), small, large), x);
}

} // namespace kiln::emit
