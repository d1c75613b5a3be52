// gelu in elementary operations: x Phi(x), with full relative accuracy in the negative tail, where Phi(x)
// written as (1 + erf(x / sqrt 2)) / 2 cancels to nothing.
//
//   Phi(-a) = e^(-a^2 / 2) t P(t - 1/2),  t = 4 / (4 + a),  a >= 0
//
// The factor of e varies slowly, so a polynomial serves the whole range. What rounding took from a^2 goes
// back into e. For x >= 0 it is x - x Phi(-x), which cancels by no more than a half.
#include <kiln/dsl/detail/recording.h>

#include <span>

namespace kiln::detail {

using ir::Opcode;

namespace {

// Minimax fits of P, of relative error 2^-26.7 for a <= 15 and 2^-59.3 for a <= 39; beyond, the exponential
// is 0.
constexpr double tail_f32[] = {0x1.82b4bcp-3, 0x1.373e38p-2, 0x1.8c6d9ep-2,  0x1.7e001ep-2, 0x1.eed34ep-3,
                               0x1.ed17c8p-5, -0x1.cc174p-5, -0x1.9b259cp-5, 0x1.6e4a84p-7, 0x1.196c14p-6};
constexpr double tail_f64[] = {
    0x1.82b4bb8c94dcep-3,  0x1.373e3a893c28ap-2,   0x1.8c6dbf2cfc2b5p-2,   0x1.7dff2bff68399p-2,
    0x1.eec4cc3e4d1ffp-3,  0x1.ee2761047f309p-5,   -0x1.c81719d53e65fp-5,  -0x1.ab825fc0f9bc7p-5,
    0x1.17a4ae29e814ep-7,  0x1.e4a4256de4cd3p-6,   -0x1.001e4841ef7f7p-11, -0x1.26d0996f1fb9cp-6,
    0x1.80b1648c451fbp-11, 0x1.8d4b1eb5f2438p-7,   -0x1.51e40ca512c1fp-9,  -0x1.1236b9ba0726bp-7,
    0x1.233bacaef0b93p-8,  0x1.4cec5bd0b0776p-8,   -0x1.6c20e0ac40c35p-8,  -0x1.ce49828126488p-10,
    0x1.4a56e2e66d50ep-8,  -0x1.e30a86031859cp-11, -0x1.4c1b712a2fb58p-9,  0x1.70d59ae19db5dp-10};

} // namespace

Handle emit_gelu(Handle x) {
  Recording& r = Recording::need("gelu");
  const ir::Type given = r.use(x)->type;
  const bool wide = given.dtype == DType::F64;
  const DType t = wide ? DType::F64 : DType::F32;
  const ir::Type type = given.with_dtype(t);
  auto number = [&](double value) { return r.broadcast(emit_float(t, value), type.shape); };
  auto apply = [&](Opcode code, auto... operand) { return r.pure(code, {operand.value...}, type); };

  const Handle v = r.cast(x, t), zero = number(0), bound = number(wide ? 39 : 15), half = number(0.5);
  const Handle a = apply(Opcode::Min, apply(Opcode::Abs, v), bound);
  const Handle ratio = apply(Opcode::Div, number(4), apply(Opcode::Add, number(4), a));
  const Handle u = apply(Opcode::Sub, ratio, half);
  const std::span<const double> c = wide ? std::span<const double>(tail_f64) : tail_f32;
  Handle p = number(c.back());
  for (std::size_t i = c.size() - 1; i-- > 0;)
    p = apply(Opcode::Fma, p, u, number(c[i]));

  const Handle square = apply(Opcode::Mul, a, a);
  const Handle lost = apply(Opcode::Fma, a, a, apply(Opcode::Neg, square));
  const Handle minus_half = number(-0.5);
  const Handle e = apply(Opcode::Exp, apply(Opcode::Mul, square, minus_half));
  const Handle exact = apply(Opcode::Fma, e, apply(Opcode::Mul, lost, minus_half), e);

  // Zeros keep their sign. An infinite x stays out of the product where it would give NaN for +infinity,
  // whose value it is.
  const Handle factor = apply(Opcode::Mul, apply(Opcode::Min, v, bound), apply(Opcode::Mul, ratio, p));
  const Handle tail = apply(Opcode::Mul, factor, exact);
  const Handle negative = r.pure(Opcode::Le, {v.value, zero.value}, type.with_dtype(DType::Bool));
  const Handle result = apply(Opcode::Select, negative, tail, apply(Opcode::Sub, v, tail));
  return r.cast(result, given.dtype);
}

} // namespace kiln::detail
