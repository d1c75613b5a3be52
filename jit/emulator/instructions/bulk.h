// What decoding a bulk copy (bulk.cpp) tells those who run it (bulk_copies.cpp).
#pragma once

#include "decoder.h"
#include <kiln/jit/emulator/core/transfer.h>

namespace kiln::emulator {

// Of an operand, with its width; no_register where there is none.
struct BulkRegister {
  std::uint32_t at = no_register, width = 0;
};
// What a bulk instruction is made of.
struct Bulk { // in extras, in this order
  BulkRegister global, shared, target,
      mbarrier; // global: of the tensor map for tensors; target: of a copy between blocks
  std::uint32_t bytes = no_register, mask = no_register;
  std::uint32_t tensor_rank = 0; // 0: no tensor
  std::uint32_t coordinates[5] = {};
  std::uint32_t map_space = 0, mbarrier_space = 0;
  std::uint32_t loads = 0, grouped = 0, reduces = 0, operation = 0, type = 0;
};
constexpr std::size_t bulk_words = sizeof(Bulk) / 4;

void run_bulk(Warp& w, const Instruction& i, Mask m); // the handler
bool bulk_reduces(Combine op, ptx::Type t);           // whether there is such a reduction

} // namespace kiln::emulator
