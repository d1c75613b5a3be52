// Defines the layout of launch arguments: a block of 64-bit words, which all back ends and the interpreter
// read.
//
//   view     the address, then all extents, then all strides (in elements): 1 + 2 * rank words
//   pointer  the address: 1 word
//   scalar   the value in the low bytes of 1 word (bool: 0 or 1); the upper bytes are zero
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::ir {

struct ArgumentLayout {
  std::vector<int> first_word; // the index of each parameter's first word
  int words = 0;               // the size of the whole block

  static ArgumentLayout of(const Kernel& kernel);
  static int words_of(const Type& type) { return type.is_view() ? 1 + 2 * type.view_rank : 1; }
  int extent_word(int param, int axis) const {
    return first_word[static_cast<std::size_t>(param)] + 1 + axis;
  }
  int stride_word(int param, int rank, int axis) const {
    return first_word[static_cast<std::size_t>(param)] + 1 + rank + axis;
  }
  // The word that holds the integer `v`, if v is an integer argument of the kernel or the extent of a view,
  // also after casts.
  std::optional<int> word_of(const Value* v) const;
};

// The number of programs along each axis of kernel.grid for these arguments. An extent of 0 gives 0 programs.
std::vector<std::int64_t> grid_of(const Kernel& bound_kernel, const std::uint64_t* arguments);

} // namespace kiln::ir
