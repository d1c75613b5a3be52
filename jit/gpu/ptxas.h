// NVIDIA's assembler, where there is one: Kiln does without, but it is faster than a driver's own and reports
// registers and spills.
#pragma once

#include <string>
#include <vector>

namespace kiln::gpu {

// Its path: KILN_PTXAS if set, else on PATH, else in /usr/local/cuda/bin. Empty if there is none; found once.
// Thread-safe.
const std::string& ptxas_path();

// Why there is none, and what to do: for errors.
std::string why_no_ptxas();

// "13.0.88", or empty if there is none or it does not run; asked for once. Thread-safe.
const std::string& ptxas_version();

struct Assembled {
  bool ok = false;
  std::vector<char> cubin;
  std::string log; // what `ptxas -v` said: registers, spills, warnings, errors
};

// Assembles for an architecture such as "sm_90a". Files lie in a temporary folder that is removed.
// Thread-safe. TargetError if there is no ptxas, it cannot be started, or it takes longer than
// KILN_PTXAS_TIMEOUT: it is ended then, with whatever it started. PTX that it refuses gives ok = false.
Assembled assemble(const std::string& ptx, const std::string& arch);

// Whether a log tells of a spill, of local memory, of wgmma run one after the other or of anything else that
// makes code slow without being an error.
bool has_complaint(const std::string& log);

} // namespace kiln::gpu
