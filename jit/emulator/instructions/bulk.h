// Defines the decoded form of a bulk copy, which bulk.cpp makes and bulk_copies.cpp executes.
#pragma once

#include "decoder.h"
#include <kiln/jit/emulator/core/transfer.h>

namespace kiln::emulator {

// The register of an operand, with its width; no_register without one.
struct BulkRegister {
  std::uint32_t at = no_register, width = 0;
};
// A bulk instruction, stored in Function::extras in this order.
struct Bulk {
  BulkRegister global;                   // a global address; for tensor copies, that of the tensor map
  BulkRegister shared, target, mbarrier; // target: the destination of a copy between blocks
  std::uint32_t bytes = no_register, mask = no_register;
  std::uint32_t tensor_rank = 0; // 0: not a tensor copy
  std::uint32_t coordinates[5] = {};
  std::uint32_t map_space = 0, mbarrier_space = 0;
  std::uint32_t loads = 0, grouped = 0, reduces = 0, operation = 0, type = 0;
};
constexpr std::size_t bulk_words = sizeof(Bulk) / 4;

void run_bulk(Warp& w, const Instruction& i, Mask m); // the handler
bool bulk_reduces(Combine op, ptx::Type t);           // whether such a reduction exists

} // namespace kiln::emulator
