// Functions of f32 that the machine's approximating instructions give within what SEMANTICS allows.
#pragma once

#include <kiln/jit/emit/vector_math.h>
#include <kiln/jit/gpu/emit/machine.h>

namespace kiln::gpu {

// exp, exp2 and rsqrt; others are polynomials as on a CPU.
class MachineMath final : public emit::HardwareMath {
public:
  explicit MachineMath(Machine& machine) : machine_(machine) {}
  llvm::Value* emit(llvm::IRBuilderBase& b, emit::MathFn fn, llvm::Value* x) const override;

private:
  Machine& machine_;
};

} // namespace kiln::gpu
