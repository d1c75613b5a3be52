// erf: x + x q(x^2) up to 1.125 (f64: 1.5), and 1 - e^-q(|x|) beyond, where q approximates -log(erfc).
//
// The second form is after Juffa's observation that the logarithm of erfc is nearly a parabola, so a short
// polynomial serves the whole range until erf rounds to 1 (3.92 in f32, 5.92 in f64).
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/exp_core.h>
#include <kiln/jit/emit/math/functions.h>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

Value* emit_erf(const MathBuilder& m, Value* x) {
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
