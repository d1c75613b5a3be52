// Declares the arithmetic on the 32 lanes of a warp, as loops that become vector code.
//
// A register is an array of 32 values, so an instruction is one loop over arrays. alu_lanes.inc holds the
// loops; alu_base.cpp, alu_avx2.cpp and alu_avx512.cpp compile them for three instruction sets, and
// alu_handler chooses one at run time.
#pragma once

#include "program.h"

namespace kiln::emulator {

// Operations on the operands d, a, b and c of an instruction. The type determines the signedness.
// clang-format off: it would indent each row further
#define KILN_ALU_OPERATIONS(X)                                                                               \
  X(Add) X(Sub) X(Mul) X(MulHi) X(MulWide) X(Mul24) X(Mul24Hi) X(Mad) X(MadHi) X(MadWide) X(Mad24)           \
  X(Mad24Hi) X(Sad) X(Div) X(Rem) X(Abs) X(Neg) X(Min) X(Max) X(Popc) X(Clz) X(Bfind) X(BfindShift)          \
  X(Brev) X(Bfe) X(And) X(Or) X(Xor) X(Not) X(Cnot) X(Lop3) X(Shl) X(Shr) X(ShfLeftWrap) X(ShfLeftClamp)     \
  X(ShfRightWrap) X(ShfRightClamp) X(Prmt) X(PrmtF4e) X(PrmtB4e) X(PrmtRc8) X(PrmtEcl) X(PrmtEcr)            \
  X(PrmtRc16) X(Selp) X(AddSat) X(SubSat) X(MadHiSat) X(Min3) X(Max3) X(Bmsk) X(BmskWrap) X(SzextClamp)      \
  X(SzextWrap) X(Fma) X(FmaRelu) X(FmaSat) X(MulSat) X(Sqrt) X(Rcp) X(Copysign) X(MinNan) X(MaxNan)          \
  X(MinXorsign) X(MaxXorsign) X(MinNanXorsign) X(MaxNanXorsign) X(MinNan3) X(MaxNan3) X(MinRelu)             \
  X(MaxRelu) X(Ex2) X(Lg2) X(Sin) X(Cos) X(Tanh) X(Rsqrt) X(RsqrtApprox) X(Move) X(Rint) X(Floor) X(Ceil)    \
  X(Trunc) X(ToS32)
// clang-format on

enum class AluOp : std::uint8_t {
#define X(name) name,
  KILN_ALU_OPERATIONS(X)
#undef X
};

// Returns null where the operation does not exist for the type. With `flush`, subnormal inputs and results
// become zero (f32, f16).
Handler alu_handler(AluOp op, ptx::Type type, bool flush);

enum class Comparison : std::uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
using CompareLanes = Mask (*)(const void* a, const void* b);
CompareLanes comparison(Comparison c, ptx::Type type, bool flush);
// Compares the upper halves of f16x2 or bf16x2.
CompareLanes comparison_high(Comparison c, ptx::Type type, bool flush);

// Computes D += A B in f32 for mma, summing in the order of k. `a` is [k][row] and `b` is [k][column].
void multiply_add_f32(float* d, const float* a, const float* b, int rows, int columns, int depth);

} // namespace kiln::emulator
