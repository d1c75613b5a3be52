// Emits math functions of f32 by approximating instructions, where those are as accurate as SEMANTICS.md
// requires.
#pragma once

#include <kiln/jit/emit/vector_math.h>
#include <kiln/jit/gpu/emit/machine.h>

namespace kiln::gpu {

// Emits exp, exp2 and rsqrt. Other functions are polynomials, as on a CPU.
class MachineMath final : public emit::HardwareMath {
public:
  explicit MachineMath(Machine& machine) : machine_(machine) {}
  llvm::Value* emit(llvm::IRBuilderBase& b, emit::MathFn fn, llvm::Value* x) const override;

private:
  Machine& machine_;
};

} // namespace kiln::gpu
