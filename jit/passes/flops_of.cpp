// Weighs operations on floats by their cost relative to an addition.
#include <kiln/jit/passes/cost.h>

namespace kiln::passes {

using namespace ir;

double flops_of(Opcode code) {
  switch (code) {
  case Opcode::Fma: return 2;
  case Opcode::Div:
  case Opcode::Sqrt:
  case Opcode::Rsqrt: return 4;
  case Opcode::Exp:
  case Opcode::Exp2: return 10;
  case Opcode::Rem:
  case Opcode::Log:
  case Opcode::Log2: return 12;
  case Opcode::Expm1:
  case Opcode::Log1p:
  case Opcode::Sigmoid: return 14;
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Tanh: return 16;
  case Opcode::Tan:
  case Opcode::Erf: return 20;
  case Opcode::Gelu:
  case Opcode::Pow:
  case Opcode::Atan2: return 30;
  default: return 1;
  }
}

} // namespace kiln::passes
