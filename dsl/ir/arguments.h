// How launch arguments are laid out: one block of 64-bit words that every execution reads.
//
//   view    pointer, then one extent and then one stride (in elements) per axis: 1 + 2 * rank words
//   pointer the address: 1 word
//   scalar  the value's bytes in the low end of 1 word (bool: 0 or 1), upper bytes zero
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::ir {

struct ArgumentLayout {
  std::vector<int> first_word; // per parameter
  int words = 0;               // of the whole block

  static ArgumentLayout of(const Kernel& kernel);
  static int words_of(const Type& type) { return type.is_view() ? 1 + 2 * type.view_rank : 1; }
  int extent_word(int param, int axis) const {
    return first_word[static_cast<std::size_t>(param)] + 1 + axis;
  }
  int stride_word(int param, int rank, int axis) const {
    return first_word[static_cast<std::size_t>(param)] + 1 + rank + axis;
  }
  // The word that holds an integer: an argument of the kernel's or a view's extent, widened or not.
  std::optional<int> word_of(const Value* v) const;
};

// Programs along each grid axis for these arguments (as many as kernel.grid; empty extents give 0).
std::vector<std::int64_t> grid_of(const Kernel& bound_kernel, const std::uint64_t* arguments);

} // namespace kiln::ir
