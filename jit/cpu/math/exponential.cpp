// exp, exp2, expm1, sigmoid and tanh: the argument is reduced to [-ln2/2, ln2/2], then one minimax
// polynomial.
//
// Method: n = round(x / ln 2), r = x - n ln 2 in two steps (Cody and Waite, "Software Manual for the
// Elementary Functions", 1980), e^x = 2^n e^r. The polynomials are from minimax.py.
#include <kiln/jit/cpu/math/coefficients.h>
#include <kiln/jit/cpu/math/exp_core.h>
#include <kiln/jit/cpu/math/functions.h>

namespace kiln::cpu {

using llvm::Value;
namespace co = coefficients;

ExpReduction reduce_by_ln2(const MathBuilder& m, Value* x) {
  Value* n = m.round(m.mul(x, 0x1.71547652b82fep+0));
  Value* high = m.fma(n, -m.pick(0x1.62e43p-1, 0x1.62e42fefa39efp-1), x);
  const double ln2_low = m.pick(-0x1.05c61p-29, 0x1.abc9e3b39803fp-56);
  return {n, m.fma(n, -ln2_low, high), high, ln2_low};
}

Value* exp_of_remainder(const MathBuilder& m, Value* r) {
  Value* q = m.polynomial(m.pick(co::exp_f32, co::exp_f64), r);
  Value* one = m.constant(1);
  Value* slope = m.mul_add(q, r, one);
  // Without FMA hardware f32 still takes the one rounding of the last step, which sigmoid's bound needs.
  return m.is_double() ? m.mul_add(slope, r, one) : m.fma(slope, r, one);
}

Value* emit_exp(const MathBuilder& m, Value* x) {
  // Past these bounds the result is infinity or zero in any case.
  x = m.at_least(m.at_most(x, m.pick(89, 710)), m.pick(-104.5, -746));
  ExpReduction e = reduce_by_ln2(m, x);
  return m.scale(exp_of_remainder(m, e.r), e.n);
}

Value* emit_exp2(const MathBuilder& m, Value* x) {
  x = m.at_least(m.at_most(x, m.pick(129, 1025)), m.pick(-151, -1076));
  Value* n = m.round(x);
  Value* r = m.sub(x, n);
  Value* q = m.polynomial(m.pick(co::exp2_f32, co::exp2_f64), r);
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
  // 2^n p + (2^n - 1), halved until the end because 2^128 (2^1024) is not a number.
  Value* half = m.power_of_two(m.sub(e.n, 1));
  Value* sum = m.mul(m.mul_add(half, p, m.sub(half, 0.5)), 2);
  return m.with_sign_of(m.select(m.equal(e.n, 0), p, sum), x);
}

Value* emit_sigmoid(const MathBuilder& m, Value* x) {
  // z / (1 + z) for negative x keeps the relative accuracy that 1 / (1 + e^-x) loses to overflow.
  Value* z = emit_exp(m, m.neg(m.abs(x)));
  Value* sum = m.add(z, 1);
  Value* quotient = m.div(m.select(m.less(x, 0), z, m.constant(1)), sum);
  // The rounding error of 1 + z, over 1 + z, for negative x; for positive x a part of it, which does no harm.
  Value* error = m.mul(m.sub(z, m.sub(sum, 1)), m.sub(m.constant(1), quotient));
  return m.mul_add(m.neg(quotient), error, quotient);
}

Value* emit_tanh(const MathBuilder& m, Value* x) {
  Value* a = m.at_most(m.abs(x), m.pick(10, 22));
  ExpReduction e = reduce_by_ln2(m, m.mul(a, 2));
  if (m.is_double()) {
    Value* p = expm1_of_remainder(m, e);
    Value* power = m.power_of_two(e.n);
    Value* t = m.select(m.equal(e.n, 0), p, m.mul_add(power, p, m.sub(power, 1)));
    return m.with_sign_of(m.div(t, m.add(t, 2)), x);
  }
  Value* power = m.mul(exp_of_remainder(m, e.r), m.power_of_two(e.n));
  Value* large = m.sub(m.constant(1), m.div(m.constant(2), m.add(power, 1)));
  Value* square = m.mul(a, a);
  Value* small = m.mul_add(m.mul(a, square), m.polynomial(co::tanh_f32, square), a);
  return m.with_sign_of(m.select(m.less(a, 0.625), small, large), x);
}

} // namespace kiln::cpu
