// Finds the instructions that only move bits and the loads of adjacent bytes, for core/unwritten.h.
#pragma once

#include <kiln/jit/emulator/core/program.h>

#include <vector>

namespace kiln::emulator {

// How the instruction of a statement moves bits; the caller fills `first_use` and `uses`.
Copying copying_of(const ptx::Statement& s);

// Called when a function is decoded. Finds which of its loads have values that are read, and how many bytes
// next to each are loaded by other loads of the same basic block and base register. first[k] is the first
// instruction of statement k.
void follow_copies(const ptx::Function& source, const std::vector<std::uint32_t>& first, Function& to);

} // namespace kiln::emulator
