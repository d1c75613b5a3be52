// Derives a product's target from LLVM's target machine, and its accumulator from the element types.
#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/dot/dot_shape.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

namespace kiln::cpu {

namespace {

bool is_small_integer(DType t) { return t == DType::I8 || t == DType::U8; }

} // namespace

bool dot_supported(DType a, DType b) {
  return (is_float(a) && is_float(b)) || (is_small_integer(a) && is_small_integer(b));
}

DType dot_accumulator(DType a, DType b) {
  internal_check(dot_supported(a, b), "the CPU has no code for a dot of these element types");
  if (is_small_integer(a)) return DType::I32;
  return a == DType::F64 || b == DType::F64 ? DType::F64 : DType::F32;
}

DotTarget dot_target(const llvm::TargetMachine& machine, int sve_bytes) {
  DotTarget target;
  if (machine.getTargetTriple().isAArch64()) {
    target.isa = sve_bytes > 16 ? DotIsa::Sve : DotIsa::Neon;
    target.sve_bytes = sve_bytes;
    target.vnni = machine.getMCSubtargetInfo()->checkFeatures("+dotprod");
    target.i8mm = machine.getMCSubtargetInfo()->checkFeatures("+i8mm");
  }
  if (!machine.getTargetTriple().isX86()) return target;
  const llvm::MCSubtargetInfo& subtarget = *machine.getMCSubtargetInfo();
  target.x86 = true;
  if (subtarget.checkFeatures("+avx512f,+avx512bw,+avx512dq,+avx512vl,+fma"))
    target.isa = DotIsa::Avx512;
  else if (subtarget.checkFeatures("+avx2,+fma"))
    target.isa = DotIsa::Avx2;
  const bool avx512 = target.isa == DotIsa::Avx512, amd = machine.getTargetCPU().starts_with("znver");
  target.slow_l2 = tuning::l2_is_slow(avx512, amd);
  target.hardware_prefetches_rows =
      tuning::hardware_prefetches_rows(avx512 || target.isa == DotIsa::Avx2, avx512);
  if (subtarget.checkFeatures("+amx-tile")) target.l2_bytes = tuning::amx_l2_bytes;
  target.f16c = subtarget.checkFeatures("+f16c");
  target.bf16_dot = target.isa == DotIsa::Avx512 && subtarget.checkFeatures("+avx512bf16");
  target.vnni = target.isa == DotIsa::Avx512 && subtarget.checkFeatures("+avx512vnni");
  target.amx_bf16 = target.bf16_dot && subtarget.checkFeatures("+amx-tile,+amx-bf16");
  target.amx_int8 = target.vnni && subtarget.checkFeatures("+amx-tile,+amx-int8");
  return target;
}

} // namespace kiln::cpu
