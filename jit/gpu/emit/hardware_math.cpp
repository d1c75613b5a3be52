// Emits exp, exp2 and rsqrt of f32 around the approximating instructions of a GPU.
#include <kiln/jit/gpu/emit/hardware_math.h>

namespace kiln::gpu {

using llvm::Value;

namespace {

// e^x = 2^n 2^f, where n = floor(x log2 e) is clamped to [-126, 126] and f is the rest. A saturating fma,
// which costs no more than a plain one, clamps n. f lies outside of [0, 1) only if the result is denormal,
// zero or infinite. The sum that is rounded down has n + 127 in its low bits, which is an exponent and only
// has to be shifted into place. This adds at most 0.7 ulp to the error of the instruction for 2^f. CUDA's
// expf takes the same steps, and NVIDIA states an error of 1 ulp for it.
Value* emit_exp(llvm::IRBuilderBase& b, Machine& machine, Value* x) {
  auto constant = [&](double v) { return llvm::ConstantFP::get(b.getFloatTy(), v); };
  auto fma = [&](Value* a, double m, Value* c) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {a, constant(m), c});
  };
  constexpr double log2_e = 0x1.715476p+0, log2_e_rest = 0x1.4ae0cp-26; // of 1.4426950408889634
  constexpr double whole = 0x1.8p23;                                    // from here on an ulp is 1
  Value* part = machine.fma_saturated(b, x, constant(log2_e / 252), constant(0.5));
  Value* sum = machine.fma_down(b, part, constant(252), constant(whole + 1));
  Value* n = b.CreateFSub(sum, constant(whole + 127));
  Value* f = fma(x, log2_e_rest, fma(x, log2_e, b.CreateFNeg(n)));
  Value* power = b.CreateBitCast(b.CreateShl(b.CreateBitCast(sum, b.getInt32Ty()), 23), b.getFloatTy());
  return b.CreateFMul(machine.exp2(b, f, Machine::Denormals::Flushed), power);
}

} // namespace

Value* MachineMath::emit(llvm::IRBuilderBase& b, emit::MathFn fn, Value* x) const {
  if (!x->getType()->isFloatTy()) return nullptr;
  switch (fn) {
  case emit::MathFn::Exp: return emit_exp(b, machine_, x);
  case emit::MathFn::Exp2: return machine_.exp2(b, x, Machine::Denormals::Kept);
  case emit::MathFn::Rsqrt: return machine_.rsqrt(b, x);
  default: return nullptr;
  }
}

} // namespace kiln::gpu
