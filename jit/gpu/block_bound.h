// Adds or removes the directive `.minnctapersm 1`, which lets ptxas spend registers freely.
//
// It says that one block at a time is enough for a multiprocessor.
//
// With the directive, ptxas spends registers on loading earlier, and may take more than there are: a stencil
// of 25 points on f64 goes from 118 registers to 254 and a spill. Without it, ptxas aims at several blocks
// per multiprocessor, and may spill values that would have fit for one block. Which is better depends on how
// ptxas schedules instructions and cannot be predicted from a kernel. So the compiler guesses, and code that
// assembles PTX tries the other way if the guess spills.
#pragma once

#include <kiln/jit/gpu/ptxas.h>

#include <cstdint>
#include <string>

namespace kiln::gpu {

// The same PTX with the directive if it has none, and without it if it has one. Empty if the PTX limits
// registers (`.maxnreg`), since the user has decided then.
std::string with_other_block_bound(const std::string& ptx);

// The bytes of spill stores and spill loads of a thread, from the output of `ptxas -v`.
std::int64_t spilled_bytes(const std::string& log);

// Like assemble(). If the result spills, this assembles the other way too and returns the better result, and
// `ptx` becomes the text that was assembled.
Assembled assemble_either_way(std::string& ptx, const std::string& arch);

} // namespace kiln::gpu
