// Runs ptxas, NVIDIA's assembler, if there is one.
// Kiln does not need it, but it is faster than the assembler in the driver, and reports registers and spills.
#pragma once

#include <string>
#include <vector>

namespace kiln::gpu {

// The path of ptxas: the value of KILN_PTXAS if that is set, else found on PATH, else in /usr/local/cuda/bin.
// Empty if there is none. It is looked for once. Thread-safe.
const std::string& ptxas_path();

// For error messages: why there is no ptxas that can be used, and what to do about it.
std::string why_no_ptxas();

// The version, such as "13.0.88". Empty if there is no ptxas or it does not run. Found once. Thread-safe.
const std::string& ptxas_version();

struct Assembled {
  bool ok = false;
  std::vector<char> cubin;
  std::string log; // the output of `ptxas -v`: registers, spills, warnings, errors
};

// Assembles PTX for an architecture such as "sm_90a", with files in a temporary folder that is removed
// afterwards. Throws a TargetError if there is no ptxas, if it cannot be started, or if it takes longer than
// KILN_PTXAS_TIMEOUT allows; then it is killed, with all processes that it started. If ptxas rejects the PTX,
// the result has ok = false. Thread-safe.
Assembled assemble(const std::string& ptx, const std::string& arch);

// Whether a log reports something that makes code slow without being an error: a spill, a stack frame in
// local memory, wgmma instructions that are serialised, or anything else with a warning.
bool has_complaint(const std::string& log);

} // namespace kiln::gpu
