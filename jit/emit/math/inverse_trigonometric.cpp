// Emits asin, acos, atan and atan2: minimax polynomials around zero, and the usual identities beyond.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/functions.h>

#include <limits>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

struct Split {
  double high, low;
};
Split half_pi(const MathBuilder& m) {
  return {m.pick(0x1.921fb6p+0, 0x1.921fb54442d18p+0), m.pick(-0x1.777a5cp-25, 0x1.1a62633145c07p-54)};
}

// atan(smaller / larger) for 0 <= smaller <= larger.
Value* atan_of_ratio(const MathBuilder& m, Value* smaller, Value* larger) {
  if (!m.is_double()) {
    Value* t = m.div(smaller, larger);
    Value* z = m.mul(t, t);
    return m.mul_add(m.mul(m.polynomial(co::atan_f32, z), z), t, t);
  }
  // Beyond tan(pi/8), atan(t) = pi/4 + atan((t - 1) / (t + 1)). The scale keeps the sum finite, and makes
  // denormals large enough to compare slopes.
  Value* scale = m.select(m.greater(larger, 0x1p1021), m.constant(0.25),
                          m.select(m.less(larger, 0x1p-900), m.constant(0x1p100), m.constant(1)));
  smaller = m.mul(smaller, scale);
  larger = m.mul(larger, scale);
  Value* steep = m.ir().CreateFCmpOGT(smaller, m.mul(larger, 0.41421356237309503));
  Value* t = m.div(m.select(steep, m.sub(smaller, larger), smaller),
                   m.select(steep, m.add(smaller, larger), larger));
  Value* z = m.mul(t, t);
  Split half = half_pi(m);
  Value* low = m.select(steep, m.constant(half.low / 2), m.constant(0));
  Value* p = m.add(t, m.mul_add(m.mul(m.polynomial(co::atan_f64, z), z), t, low));
  return m.select(steep, m.add(p, half.high / 2), p);
}

// asin(s) = s + rest, where s is |x| if |x| <= 1/2, and else sqrt((1 - |x|) / 2), for which asin(|x|) = pi/2
// - 2 asin(s).
struct AsinParts {
  Value* small;
  Value* s;
  Value* rest;
};
AsinParts asin_parts(const MathBuilder& m, Value* a) {
  Value* small = m.ir().CreateFCmpOLE(a, m.constant(0.5));
  Value* z = m.select(small, m.mul(a, a), m.mul(m.sub(m.constant(1), a), 0.5));
  Value* s = m.select(small, a, m.sqrt(z));
  return {small, s, m.mul(m.mul(m.polynomial(m.pick(co::asin_f32, co::asin_f64), z), z), s)};
}

} // namespace

Value* emit_asin(const MathBuilder& m, Value* x) {
  AsinParts p = asin_parts(m, m.abs(x));
  Split half = half_pi(m);
  // pi/2 - 2 (s + rest) as pi/4 + (pi/4 - 2 s) - 2 rest, whose intermediate sums are small.
  Value* excess = m.sub(m.constant(half.high / 2), m.mul(p.s, 2));
  Value* outer = m.add(m.sub(excess, m.sub(m.mul(p.rest, 2), half.low)), half.high / 2);
  return m.with_sign_of(m.select(p.small, m.add(p.s, p.rest), outer), x);
}

Value* emit_acos(const MathBuilder& m, Value* x) {
  AsinParts p = asin_parts(m, m.abs(x));
  Split half = half_pi(m);
  Value* value = m.add(p.s, p.rest);
  Value* inner = m.sub(m.constant(half.high), m.sub(m.flip_sign(value, m.sign_bit(x)), half.low));
  Value* near_one = m.mul(value, 2);
  Value* near_minus_one = m.sub(m.constant(2 * half.high), m.sub(near_one, 2 * half.low));
  return m.select(p.small, inner, m.select(m.less(x, 0), near_minus_one, near_one));
}

Value* emit_atan(const MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  Value* steep = m.greater(a, 1);
  Value* one = m.constant(1);
  Value* p = atan_of_ratio(m, m.select(steep, one, a), m.select(steep, a, one));
  Split half = half_pi(m);
  p = m.select(steep, m.sub(m.constant(half.high), m.sub(p, half.low)), p);
  return m.with_sign_of(p, x);
}

Value* emit_atan2(const MathBuilder& m, Value* y, Value* x) {
  auto& b = m.ir();
  Value *ay = m.abs(y), *ax = m.abs(x);
  Value* steep = b.CreateFCmpOGT(ay, ax);
  Value *smaller = m.select(steep, ax, ay), *larger = m.select(steep, ay, ax);
  // 0 / 0 is treated as 0 / 1, and infinity / infinity as 1 / 1.
  Value* one = m.constant(1);
  Value* both = m.equal(smaller, infinity);
  smaller = m.select(both, one, smaller);
  larger = m.select(b.CreateOr(both, m.equal(larger, 0)), one, larger);
  Value* p = atan_of_ratio(m, smaller, larger);
  Split half = half_pi(m);
  p = m.select(steep, m.sub(m.constant(half.high), m.sub(p, half.low)), p);
  Value* left = b.CreateICmpNE(m.sign_bit(x), m.integer(0));
  p = m.select(left, m.sub(m.constant(2 * half.high), m.sub(p, 2 * half.low)), p);
  p = m.select(b.CreateFCmpUNO(x, y), m.add(x, y), p);
  return m.with_sign_of(p, y);
}

} // namespace kiln::emit
