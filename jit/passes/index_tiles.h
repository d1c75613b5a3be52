// Declares the recognition of index tiles, such as m + arange(BM).
//
// Index tiles may also be broadcast along the axes of larger tiles.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <optional>

namespace kiln::passes {

// An i64 tile whose elements are offset + start + the index along one axis (or just offset + start), in 64
// bits that may wrap.
struct IndexTile {
  const ir::Value* offset = nullptr; // a scalar that is no constant; null: 0
  std::int64_t start = 0;
  int axis = -1; // the axis of the tile whose index is added; -1: none

  bool operator==(const IndexTile&) const = default;
};

// A signed scalar of 32 or 64 bits, as an index tile without an axis.
IndexTile scalar_index(const ir::Value* scalar);

// Recognises an i64 tile as an index tile.
std::optional<IndexTile> index_tile(const ir::Value* v);
// Recognises an i32 tile. Its offset has 32 bits, and sums with it wrap to 32 bits; `start` itself does not
// wrap.
std::optional<IndexTile> index_tile_in_32_bits(const ir::Value* v);

// The least and the greatest element that a tile of i32 or i64 may have, as far as they follow from constants
// and aranges alone; none if they are not known, or if a sum might wrap.
struct IndexRange {
  std::int64_t low = 0, high = 0;
};
std::optional<IndexRange> index_range(const ir::Value* v);

// The difference between neighbours along an axis of a tile of integers or pointers (in elements), in 64 bits
// that may wrap. None if it is unknown, or not the same everywhere.
std::optional<std::int64_t> step_along(const ir::Value* v, int axis);
// The difference between the addresses of neighbours along an axis, in elements, for a gather, a scatter or
// an access through pointers. None if it is unknown, or if an index changes that belongs to another axis of a
// view than the contiguous one.
std::optional<std::int64_t> step_in_memory(const ir::Op& op, int axis);

} // namespace kiln::passes
