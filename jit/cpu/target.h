// Describes the CPU for which code is generated: the host, or the CPU that KILN_CPU names.
#pragma once

#include <kiln/jit/cpu/tuning.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
}

namespace kiln::cpu {

struct Target {
  std::string triple;    // LLVM's triple if it is not the host's: "aarch64-linux-gnu"
  std::string cpu;       // LLVM's name, as in "znver5"
  std::string features;  // "+avx2,-avx512f,..."
  int vector_bytes = 16; // bytes of one register
  int vector_registers = 16;
  int registers_per_step = 1; // of a vector loop that evaluates functions such as exp
  int sve_bytes = 0; // AArch64: bytes of an SVE register if code uses SVE; such code runs at this length only
  bool avx2 = false, fma = false, avx512 = false, f16c = false, avx512_bf16 = false;
  bool amx_bf16 = false, amx_int8 = false;
  std::int64_t l2_bytes = tuning::usual_l2_bytes; // of CPUs with AVX-512
  bool slow_l3 = false;                           // as in tuning.h

  bool operator==(const Target&) const = default;
  std::string key() const {
    return triple + cpu + ":" + features + (sve_bytes ? ":sve" + std::to_string(sve_bytes) : "");
  }
};

// The host's target, which is detected once. Throws UserError if KILN_CPU names a CPU that is unknown or has
// instructions that the host lacks.
const Target& host_target();
// LLVM's flags for the instructions that this CPU has and that this process may use.
std::map<std::string, bool> host_features();
// Returns the target of an LLVM CPU name, with that CPU's own features, for looking at code rather than
// running it. Throws UserError if LLVM has no such CPU, or if the CPU does not run 64-bit code. Another
// architecture than the host's needs a triple, and a program in which LLVM's code generator for it is linked
// and initialised; Kiln's library only has the host's.
Target named_target(const std::string& cpu, const std::string& triple = "");
// The features that code for `wanted` may use and that `present` lacks, by LLVM's names ("avx512fp16").
std::vector<std::string> missing_features(const Target& wanted, const Target& present);

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target);

} // namespace kiln::cpu
