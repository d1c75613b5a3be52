// How freely ptxas spends registers: told that one block a multiprocessor will do (`.minnctapersm 1`), or
// not.
//
// Told, it takes registers for whatever lets it load earlier, and may take more than there are: a stencil of
// 25 points on f64 goes from 118 registers to 254 and a spill. Not told, it aims at several blocks, and may
// spill what one block would have had room for. Which is better depends on ptxas's own schedule and cannot be
// told from a kernel; so the compiler guesses, and whoever assembles tries the other where the guess spills.
#pragma once

#include <kiln/jit/gpu/ptxas.h>

#include <cstdint>
#include <string>

namespace kiln::gpu {

// The same PTX with the directive if it has none, without it if it has. Empty where a limit of registers is
// given (`.maxnreg`): what to spend is the user's choice then.
std::string with_other_block_bound(const std::string& ptx);

// Bytes a thread that `ptxas -v` says are spilled.
std::int64_t spilled_bytes(const std::string& log);

// As assemble(); if what it made spills, the better of both ways, and `ptx` becomes what was assembled.
Assembled assemble_either_way(std::string& ptx, const std::string& arch);

} // namespace kiln::gpu
