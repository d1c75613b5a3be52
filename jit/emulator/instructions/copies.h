// Which instructions only move bits, and which loads lie side by side: what unwritten.h goes by.
#pragma once

#include <kiln/jit/emulator/core/program.h>

#include <vector>

namespace kiln::emulator {

// Of the one instruction that a statement becomes; its uses are left open.
Copying copying_of(const ptx::Statement& s);

// Once a function is decoded: which of its loads have values that something reads, and how far the bytes of
// each go on in other loads of the same basic block and base register. first[k]: statement k's first
// instruction.
void follow_copies(const ptx::Function& source, const std::vector<std::uint32_t>& first, Function& to);

} // namespace kiln::emulator
