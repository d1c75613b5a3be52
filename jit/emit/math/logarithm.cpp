// Emits log, log2 and log1p by an exponent and one polynomial.
//
// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and the polynomial is for log(1 + f).
//
// f32 evaluates f + f^2 q(f). f64 uses s = f / (2 + f) and log(1 + f) = f - (f^2/2 - s (f^2/2 + s^2 q(s^2))),
// the arrangement of Ng and Tang that the notes of fdlibm describe. log1p keeps the rounding error of 1 + x.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/functions.h>
#include <kiln/jit/emit/math/log_core.h>

#include <bit>
#include <limits>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

LogReduction split_normal(const MathBuilder& m, Value* x) {
  const std::int64_t one = m.is_double() ? 0x3ff0000000000000 : 0x3f800000;
  const std::int64_t sqrt_half = m.is_double() ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  const std::int64_t mantissa_mask = (std::int64_t{1} << m.mantissa()) - 1;
  auto& b = m.ir();
  Value* t = b.CreateAdd(m.bits(x), m.integer(one - sqrt_half));
  // The biased exponent becomes a float by way of the significand of 2^mantissa, without a conversion of
  // integers.
  const double base = m.is_double() ? 0x1p52 : 0x1p23;
  Value* biased = b.CreateOr(b.CreateLShr(t, m.integer(m.mantissa())), m.bits(m.constant(base)));
  Value* e = m.sub(m.from_bits(biased), base + m.bias());
  Value* significand = b.CreateAdd(b.CreateAnd(t, m.integer(mantissa_mask)), m.integer(sqrt_half));
  return {e, m.sub(m.from_bits(significand), 1)};
}

LogReduction split_positive(const MathBuilder& m, Value* x) {
  const double smallest_normal = m.pick(0x1p-126, 0x1p-1022), up = m.pick(0x1p23, 0x1p52);
  Value* denormal = m.less(x, smallest_normal);
  LogReduction r = split_normal(m, m.select(denormal, m.mul(x, up), x));
  r.e = m.select(denormal, m.sub(r.e, m.mantissa()), r.e);
  return r;
}

namespace {

// log(1 + f) + e ln 2 + correction, where the correction is small compared with the last place of 1 + f.
Value* log_sum(const MathBuilder& m, Value* e, Value* f, Value* correction) {
  Value* low = m.mul(e, m.pick(-0x1.05c61p-29, 0x1.abc9e3b39803fp-56));
  if (correction) low = m.add(low, correction);
  Value* square = m.mul(f, f);
  Value* sum = nullptr;
  if (m.is_double()) {
    Value* s = m.div(f, m.add(f, 2));
    Value* z = m.mul(s, s);
    Value* half_square = m.mul(square, 0.5);
    Value* inner = m.mul_add(m.polynomial(co::log_f64, z), z, half_square);
    sum = m.sub(f, m.sub(half_square, m.mul_add(s, inner, low)));
  } else {
    sum = m.add(f, m.mul_add(m.polynomial(co::log_f32, f), square, low));
  }
  return m.fma(e, m.pick(0x1.62e43p-1, 0x1.62e42fefa39efp-1), sum);
}

// Sets the values for infinity and NaN, left of the pole, and at the pole.
Value* finish(const MathBuilder& m, Value* x, Value* y, double pole) {
  y = m.select(m.less(x, infinity), y, x);
  y = m.select(m.less(x, pole), m.constant(std::numeric_limits<double>::quiet_NaN()), y);
  return m.select(m.equal(x, pole), m.constant(-infinity), y);
}

} // namespace

Value* emit_log(const MathBuilder& m, Value* x) {
  LogReduction r = split_positive(m, x);
  return finish(m, x, log_sum(m, r.e, r.f, nullptr), 0);
}

Value* emit_log2(const MathBuilder& m, Value* x) {
  LogReduction r = split_positive(m, x);
  Value* y = nullptr;
  if (m.is_double()) {
    Value* natural = log_sum(m, m.constant(0), r.f, nullptr);
    y = m.fma(natural, 0x1.71547652b82fep+0, r.e);
  } else { // 1 / ln 2 is in two parts
    Value* rest = m.mul_add(r.f, m.polynomial(co::log2_f32, r.f), m.constant(0x1.4ae0cp-26));
    y = m.add(r.e, m.fma(r.f, 0x1.715476p+0, m.mul(r.f, rest)));
  }
  return finish(m, x, y, 0);
}

Value* emit_log1p(const MathBuilder& m, Value* x) {
  Value* u = m.add(x, 1);
  // Knuth's two-sum: 1 + x = u + c exactly.
  Value* x_part = m.sub(u, 1);
  Value* c = m.add(m.sub(m.constant(1), m.sub(u, x_part)), m.sub(x, x_part));
  LogReduction r = split_normal(m, u);
  Value* whole = m.equal(r.e, 0); // 1 + x is in the polynomial's range: f is x itself
  Value* f = m.select(whole, x, r.f);
  Value* down = m.power_of_two(m.neg(m.at_most(r.e, m.bias() - 1)));
  c = m.select(whole, m.constant(0), m.mul(c, down));
  Value* y = log_sum(m, r.e, f, m.mul_add(m.neg(f), c, c)); // c / (1 + f) to first order
  return m.select(m.equal(x, 0), x, finish(m, x, y, -1));
}

} // namespace kiln::emit
