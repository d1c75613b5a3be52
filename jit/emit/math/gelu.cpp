// Emits gelu, which is x Phi(x), with full relative accuracy in the negative tail.
//
// There, Phi(x) = (1 + erf(x / sqrt 2)) / 2 would cancel. Instead:
//
//   gelu(x) = max(x, 0) - a Phi(-a),  Phi(-a) = e^(-a^2 / 2) q(a),  a = |x|
//
// q varies slowly, so that one polynomial in s / (s + a) is enough for its whole range. For f32 in 512-bit
// registers it is one of 16 polynomials, without a quotient. The smaller s is, the less the rounding error of
// the quotient matters, and the longer the polynomial must be: with s = 4, the error of gelu would be up to
// 7.9 ulp.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/functions.h>

#include <iterator>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

Value* tail_by_ratio(const MathBuilder& m, Value* a) {
  const double s = m.pick(2.5, 3);
  Value* ratio = m.div(m.constant(s), m.add(a, s));
  return m.mul(ratio, m.polynomial(m.pick(co::gelu_f32, co::gelu_f64), m.sub(ratio, 0.5)));
}

// One permute of a register selects the coefficients of all lanes.
Value* tail_by_table(const MathBuilder& m, Value* a) {
  Value* interval = m.ir().CreateLShr(m.bits(m.add(a, 1)), m.integer(21));
  Value* t = m.sub(a, m.look_up(co::gelu_centres_f32, interval));
  std::size_t power = std::size(co::gelu_table_f32) - 1;
  Value* q = m.look_up(co::gelu_table_f32[power], interval);
  while (power-- > 0)
    q = m.fma(q, t, m.look_up(co::gelu_table_f32[power], interval));
  return q;
}

} // namespace

Value* emit_gelu(const MathBuilder& m, Value* x) {
  const bool by_table = m.scales_any() && !m.is_double();
  // Beyond the bound, the exponential is 0. The last interval of the table ends at 15.
  Value* a = m.at_most(m.abs(x), m.pick(14.875, 39));
  Value* q = by_table ? tail_by_table(m, a) : tail_by_ratio(m, a);
  return m.mul_add(m.mul(m.neg(a), q), emit_gaussian(m, a), m.at_least(x, -0.0)); // zeros keep their sign
}

} // namespace kiln::emit
