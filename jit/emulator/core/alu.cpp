// Chooses the arithmetic loops for the instruction set of this machine.
#include "alu.h"

namespace kiln::emulator {

#define DECLARE(name)                                                                                        \
  namespace name {                                                                                           \
  Handler handler(AluOp op, ptx::Type type, bool flush);                                                     \
  CompareLanes comparison(Comparison c, ptx::Type type, bool flush, bool high);                              \
  void multiply_add(float* d, const float* a, const float* b, int rows, int columns, int depth);             \
  }
DECLARE(any_machine)
#ifdef __x86_64__
DECLARE(avx2)
DECLARE(avx512)
#endif

namespace {

int machine() {
#ifdef __x86_64__
  static const int found =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512cd")
          ? 2
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? 1
                                                                                                          : 0;
  return found;
#else
  return 0;
#endif
}

} // namespace

#ifdef __x86_64__
#define CHOOSE(call) (machine() == 2 ? avx512::call : machine() == 1 ? avx2::call : any_machine::call)
#else
#define CHOOSE(call) any_machine::call
#endif

Handler alu_handler(AluOp op, ptx::Type type, bool flush) {
  if (type == ptx::Type::U16x2 || type == ptx::Type::S16x2) return nullptr; // see instructions/packed.cpp
  return CHOOSE(handler(op, type, flush));
}
CompareLanes comparison(Comparison c, ptx::Type type, bool flush) {
  return CHOOSE(comparison(c, type, flush, false));
}
CompareLanes comparison_high(Comparison c, ptx::Type type, bool flush) {
  return CHOOSE(comparison(c, type, flush, true));
}
void multiply_add_f32(float* d, const float* a, const float* b, int rows, int columns, int depth) {
  CHOOSE(multiply_add(d, a, b, rows, columns, depth));
}

} // namespace kiln::emulator
