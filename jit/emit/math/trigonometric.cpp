// Emits sin, cos and tan by reduction modulo pi/2 and one of two polynomials.
//
// A multiple of pi/2 is subtracted from |x|, and the quadrant selects one of the polynomials on [-pi/4,
// pi/4].
//
// The reduction takes three steps with FMA up to 2^16 (f32) or 2^20 (f64) (Cody and Waite). If any lane is
// beyond that, it is the exact reduction of trig_reduction.cpp. tan of f32 is computed in f64.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/functions.h>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

constexpr double two_over_pi = 0x1.45f306dc9c883p-1;

struct Angle {
  Value* r;        // in [-pi/4, pi/4]
  Value* quadrant; // modulo 4
};

// `a` is |x|.
Angle reduce_by_half_pi(const MathBuilder& m, Value* a) {
  Value* n = m.round(m.mul(a, two_over_pi));
  Value* r = m.fma(n, -m.pick(0x1.921fb6p+0, 0x1.921fb54442d18p+0), a);
  r = m.fma(n, -m.pick(-0x1.777a5cp-25, 0x1.1a62633145c07p-54), r);
  r = m.fma(n, -m.pick(-0x1.ee59dap-50, -0x1.f1976b7ed8fbcp-110), r);
  Value* quadrant = m.integer_bits(n);
  if (m.options().near_angles) return {r, quadrant};
  Value* huge = m.ir().CreateNot(m.less(a, m.pick(near_angle, 0x1p20)));
  auto merged = m.if_any(huge, {r, quadrant}, [&]() -> llvm::SmallVector<Value*, 2> {
    Reduced exact = exact_reduction(m, a);
    Value* remainder = m.is_double() ? exact.remainder : m.ir().CreateFPTrunc(exact.remainder, m.type());
    return {m.select(huge, remainder, r), m.select(huge, exact.quadrant, quadrant)};
  });
  return {merged[0], merged[1]};
}

Value* sin_polynomial(const MathBuilder& m, Value* r, Value* square) {
  Value* q = m.polynomial(m.pick(co::sin_f32, co::sin_f64), square);
  return m.mul_add(m.mul(q, square), r, r);
}

Value* cos_polynomial(const MathBuilder& m, Value* square) {
  Value* q = m.polynomial(m.pick(co::cos_f32, co::cos_f64), square);
  return m.mul_add(m.mul_add(q, square, m.constant(-0.5)), square, m.constant(1));
}

Value* is_odd(const MathBuilder& m, Value* quadrant) {
  return m.ir().CreateICmpNE(m.ir().CreateAnd(quadrant, m.integer(1)), m.integer(0));
}

// sin(r + quadrant pi/2), with its sign flipped if the sign bit of `sign` is set.
Value* sin_of(const MathBuilder& m, Value* r, Value* quadrant, Value* sign) {
  auto& b = m.ir();
  Value* square = m.mul(r, r);
  Value* value = m.select(is_odd(m, quadrant), cos_polynomial(m, square), sin_polynomial(m, r, square));
  const int sign_shift = m.is_double() ? 62 : 30; // moves bit 1 of the quadrant to the sign bit
  Value* flip = b.CreateShl(b.CreateAnd(quadrant, m.integer(2)), m.integer(sign_shift));
  return m.flip_sign(value, sign ? b.CreateXor(flip, sign) : flip);
}

// tan of r + quadrant pi/2 in f64.
Value* tan_of(const MathBuilder& m, Value* r, Value* quadrant) {
  Value* square = m.mul(r, r);
  Value *sine = sin_polynomial(m, r, square), *cosine = cos_polynomial(m, square);
  Value* odd = is_odd(m, quadrant);
  return m.div(m.select(odd, m.neg(cosine), sine), m.select(odd, sine, cosine));
}

} // namespace

Value* emit_sin(const MathBuilder& m, Value* x) {
  Angle angle = reduce_by_half_pi(m, m.abs(x));
  return sin_of(m, angle.r, angle.quadrant, m.sign_bit(x));
}

Value* emit_cos(const MathBuilder& m, Value* x) {
  Angle angle = reduce_by_half_pi(m, m.abs(x));
  return sin_of(m, angle.r, m.ir().CreateAdd(angle.quadrant, m.integer(1)), nullptr);
}

Value* emit_tan(const MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  if (m.is_double()) {
    Angle angle = reduce_by_half_pi(m, a);
    return m.flip_sign(tan_of(m, angle.r, angle.quadrant), m.sign_bit(x));
  }
  auto& b = m.ir();
  const MathBuilder w = m.wide();
  Value* wide_a = b.CreateFPExt(a, w.type());
  Value* n = w.round(w.mul(wide_a, two_over_pi));
  Value* r = w.fma(n, -0x1.1a62633145c07p-54, w.fma(n, -0x1.921fb54442d18p+0, wide_a));
  Angle angle = {r, w.integer_bits(n)};
  if (!m.options().near_angles) {
    Value* huge = b.CreateNot(m.less(a, 0x1p20));
    auto merged = m.if_any(huge, {angle.r, angle.quadrant}, [&]() -> llvm::SmallVector<Value*, 2> {
      Reduced exact = exact_reduction(m, a);
      Value* exact_quadrant = b.CreateZExt(exact.quadrant, w.int_type());
      return {b.CreateSelect(huge, exact.remainder, angle.r),
              b.CreateSelect(huge, exact_quadrant, angle.quadrant)};
    });
    angle = {merged[0], merged[1]};
  }
  Value* result = b.CreateFPTrunc(tan_of(w, angle.r, angle.quadrant), m.type());
  return m.flip_sign(result, m.sign_bit(x));
}

} // namespace kiln::emit
