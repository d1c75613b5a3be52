// Emits pow: 2^(y log2 |x|), with the special cases of C99 Annex F.
//
// f32 is computed in f64. f64 computes log2 |x| as a sum of two doubles (Dekker arithmetic) to about 65 bits,
// because up to 1100 times its relative error reaches the result.
#include <kiln/jit/emit/math/coefficients.h>
#include <kiln/jit/emit/math/functions.h>
#include <kiln/jit/emit/math/log_core.h>

#include <limits>

namespace kiln::emit {

using llvm::Value;
namespace co = coefficients;

namespace {

constexpr double inv_ln2 = 0x1.71547652b82fep+0, inv_ln2_low = 0x1.777d0ffda0d24p-56;

// An unevaluated sum, |low| at most half an ulp of |high|.
struct Pair {
  Value* high;
  Value* low;
};

Pair fast_two_sum(const MathBuilder& m, Value* big, Value* small) {
  Value* sum = m.add(big, small);
  return {sum, m.sub(small, m.sub(sum, big))};
}

Pair product(const MathBuilder& m, Pair x, Pair y) {
  Value* high = m.mul(x.high, y.high);
  Value* error = m.fma(x.high, y.high, m.neg(high));
  Value* low = m.add(error, m.mul_add(x.high, y.low, m.mul(x.low, y.high)));
  return fast_two_sum(m, high, low);
}

Pair sum(const MathBuilder& m, Pair big, Pair small) {
  Pair s = fast_two_sum(m, big.high, small.high);
  return fast_two_sum(m, s.high, m.add(s.low, m.add(big.low, small.low)));
}

// log2 of a positive finite x in f64, to about 65 bits.
Pair log2_pair(const MathBuilder& m, Value* x) {
  LogReduction r = split_positive(m, x);
  // s = f / (2 + f); log(1 + f) = 2 s + 2/3 s^3 + s^5 q(s^2)
  Value* d = m.add(r.f, 2);
  Value* d_low = m.sub(r.f, m.sub(d, 2));
  Value* s_high = m.div(r.f, d);
  Value* rest = m.sub(m.fma(m.neg(s_high), d, r.f), m.mul(s_high, d_low));
  Pair s = {s_high, m.div(rest, d)};
  Pair square = product(m, s, s);
  Pair cube = product(m, square, s);
  Pair third = product(m, cube, {m.constant(0x1.5555555555555p-1), m.constant(0x1.5555555555555p-55)});
  Value* tail = m.mul(m.mul(cube.high, square.high), m.polynomial(co::log_tail_f64, square.high));
  Pair natural = sum(m, {m.mul(s.high, 2), m.mul(s.low, 2)}, third);
  natural = fast_two_sum(m, natural.high, m.add(natural.low, tail));
  Pair fraction = product(m, natural, {m.constant(inv_ln2), m.constant(inv_ln2_low)});
  // fast_two_sum needs the larger operand first. e is larger than the fraction or zero, and if it is zero the
  // sum is exact in any order.
  Pair whole = fast_two_sum(m, r.e, fraction.high);
  return {whole.high, m.add(whole.low, fraction.low)};
}

// |x|^y in f64 for f64 operands.
Value* power_double(const MathBuilder& m, Value* a, Value* y) {
  Pair l = log2_pair(m, a);
  l.high = m.select(m.less(a, infinity), l.high, a);
  l.high = m.select(m.equal(a, 0), m.constant(-infinity), l.high);
  Value* t = m.mul(y, l.high);
  Value* t_low = m.mul_add(y, l.low, m.fma(y, l.high, m.neg(t)));
  t_low = m.select(m.less(m.abs(t), 2000), t_low, m.constant(0));
  t = m.at_least(m.at_most(t, 1100), -1100);
  Value* n = m.round(t);
  Value* r = m.add(m.sub(t, n), t_low);
  return m.scale(m.mul_add(m.polynomial(co::exp2_f64, r), r, m.constant(1)), n);
}

// |x|^y in f64 for f32 operands that were widened, accurate to about 2^-32.
Value* power_single(const MathBuilder& m, Value* a, Value* y) {
  LogReduction r = split_normal(m, a);
  Value* s = m.div(r.f, m.add(r.f, 2));
  Value* z = m.mul(s, s);
  Value* natural = m.mul_add(m.mul(m.polynomial(co::log_single_in_f64, z), z), s, m.mul(s, 2));
  Value* l = m.mul_add(natural, m.constant(inv_ln2), r.e);
  l = m.select(m.less(a, infinity), l, a);
  l = m.select(m.equal(a, 0), m.constant(-infinity), l);
  Value* t = m.at_least(m.at_most(m.mul(y, l), 200), -200);
  Value* n = m.round(t);
  Value* p = m.polynomial(co::exp2_single_in_f64, m.sub(t, n));
  return m.mul(m.mul_add(p, m.sub(t, n), m.constant(1)), m.power_of_two(n));
}

} // namespace

Value* emit_pow(const MathBuilder& m, Value* x, Value* y) {
  auto& b = m.ir();
  Value* a = m.abs(x);
  Value* magnitude = nullptr;
  if (m.is_double()) {
    magnitude = power_double(m, a, y);
  } else {
    const MathBuilder w = m.wide();
    magnitude =
        b.CreateFPTrunc(power_single(w, b.CreateFPExt(a, w.type()), b.CreateFPExt(y, w.type())), m.type());
  }
  // The result is 1 for y = 0, for |x| = 1 with any y but NaN, and for x = 1 with any y.
  Value* one =
      b.CreateOr(m.equal(y, 0), b.CreateOr(m.equal(x, 1), b.CreateAnd(m.equal(a, 1), b.CreateFCmpORD(y, y))));
  magnitude = m.select(one, m.constant(1), magnitude);
  Value* integral = b.CreateFCmpOEQ(m.unary(llvm::Intrinsic::floor, y), y);
  Value* half = m.mul(y, 0.5);
  Value* odd = b.CreateAnd(integral, b.CreateFCmpONE(m.unary(llvm::Intrinsic::floor, half), half));
  Value* sign = b.CreateSelect(odd, m.sign_bit(x), m.integer(0));
  // A finite negative x has no real power that is not an integer.
  Value* undefined = b.CreateAnd(b.CreateAnd(m.less(x, 0), m.greater(x, -infinity)), b.CreateNot(integral));
  Value* result = m.flip_sign(magnitude, sign);
  return m.select(undefined, m.constant(std::numeric_limits<double>::quiet_NaN()), result);
}

} // namespace kiln::emit
