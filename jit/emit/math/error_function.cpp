// Emits erf by one of two polynomials or, in 512-bit registers, by one of 16.
//
// Up to 1.125 (f64: 1.5) it is x + x q(x^2), and beyond that 1 - e^-q(|x|), where q approximates -log(erfc).
// For f32 in 512-bit registers, each of 16 intervals has a polynomial of its own.
//
// The second form follows Juffa's observation that the logarithm of erfc is nearly a parabola, so that a
// short polynomial is enough until erf rounds to 1 (at 3.92 in f32 and 5.92 in f64).
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/exp_core.h>
#include <kiln/jit/emit/math/functions.h>

#include <iterator>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

// For f32: a 512-bit register holds 16 coefficients, and one permute selects those of all lanes. erf(x) = t +
// q_n(t), where n w is the multiple of w that is nearest to x, and t = x - n w. It takes 18 operations; the
// other way takes 26.
Value* erf_by_table(const MathBuilder& m, Value* x) {
  constexpr double w = co::erf_interval_f32, to_integer = 0x1.8p23;
  Value* a = m.at_most(m.abs(x), 4);
  Value* shifted = m.fma(a, 1 / w, m.constant(to_integer));
  Value* t = m.fma(m.sub(shifted, to_integer), -w, a);
  auto coefficient = [&](std::size_t power) { return m.look_up(co::erf_table_f32[power], m.bits(shifted)); };
  std::size_t power = std::size(co::erf_table_f32) - 1;
  Value* q = coefficient(power);
  while (--power > 0)
    q = m.fma(q, t, coefficient(power));
  return m.with_sign_of(m.fma(q, t, m.add(coefficient(0), t)), x);
}

} // namespace

Value* emit_erf(const MathBuilder& m, Value* x) {
  if (m.scales_any() && !m.is_double()) return erf_by_table(m, x);
  Value* a = m.at_most(m.abs(x), m.pick(4, 6));
  Value* square = m.mul(a, a);
  Value* small = m.mul_add(m.polynomial(m.pick(co::erf_small_f32, co::erf_small_f64), square), a, a);
  Value* centred = m.sub(a, m.pick(2.5, 3));
  Value* log_erfc = m.neg(m.polynomial(m.pick(co::erf_large_f32, co::erf_large_f64), centred));
  ExpReduction e = reduce_by_ln2(m, log_erfc);
  Value* large = m.sub(m.constant(1), m.mul(exp_of_remainder(m, e.r), e.power));
  return m.with_sign_of(m.select(m.less(a, m.pick(1.125, 1.5)), small, large), x);
}

} // namespace kiln::emit
