// Chooses the emitter of each math function and shields it from the builder's fast-math flags.
#include <kiln/jit/emit/vector_math.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/emit/math/functions.h>

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::emit {

MathOptions math_options(const llvm::TargetMachine& target) {
  const llvm::Triple& triple = target.getTargetTriple();
  if (!triple.isX86()) return {.has_fma = true, .avx512 = false};
  const llvm::MCSubtargetInfo& subtarget = *target.getMCSubtargetInfo();
  return {.has_fma = subtarget.checkFeatures("+fma"),
          .avx512 = subtarget.checkFeatures("+avx512f,+avx512dq")};
}

int operand_count(MathFn fn) { return fn == MathFn::Pow || fn == MathFn::Atan2 ? 2 : 1; }

llvm::Value* emit_math(llvm::IRBuilderBase& builder, const MathOptions& options, MathFn fn, llvm::Value* x,
                       llvm::Value* y) {
  llvm::Type* scalar = x->getType()->getScalarType();
  internal_check(scalar->isFloatTy() || scalar->isDoubleTy(), "emit_math takes f32 or f64");
  internal_check((y != nullptr) == (operand_count(fn) == 2) && (!y || y->getType() == x->getType()),
                 "emit_math got the wrong operands");
  llvm::IRBuilderBase::FastMathFlagGuard guard(builder);
  builder.clearFastMathFlags();
  if (options.hardware && !y)
    if (llvm::Value* result = options.hardware->emit(builder, fn, x)) return result;
  const MathBuilder m(builder, options, x->getType());
  switch (fn) {
  case MathFn::Exp: return emit_exp(m, x);
  case MathFn::Exp2: return emit_exp2(m, x);
  case MathFn::Expm1: return emit_expm1(m, x);
  case MathFn::Log: return emit_log(m, x);
  case MathFn::Log2: return emit_log2(m, x);
  case MathFn::Log1p: return emit_log1p(m, x);
  case MathFn::Sin: return emit_sin(m, x);
  case MathFn::Cos: return emit_cos(m, x);
  case MathFn::Tan: return emit_tan(m, x);
  case MathFn::Tanh: return emit_tanh(m, x);
  case MathFn::Erf: return emit_erf(m, x);
  case MathFn::Gelu: return emit_gelu(m, x);
  case MathFn::Sigmoid: return emit_sigmoid(m, x);
  case MathFn::Pow: return emit_pow(m, x, y);
  case MathFn::Sqrt: return m.sqrt(x);
  case MathFn::Rsqrt: return m.div(m.constant(1), m.sqrt(x));
  case MathFn::Floor: return m.unary(llvm::Intrinsic::floor, x);
  case MathFn::Ceil: return m.unary(llvm::Intrinsic::ceil, x);
  case MathFn::Trunc: return m.unary(llvm::Intrinsic::trunc, x);
  case MathFn::Round: return m.round(x);
  case MathFn::Asin: return emit_asin(m, x);
  case MathFn::Acos: return emit_acos(m, x);
  case MathFn::Atan: return emit_atan(m, x);
  case MathFn::Atan2: return emit_atan2(m, x, y);
  }
  internal_error("emit_math got an unknown function");
}

} // namespace kiln::emit
