// Tiles of integers that count: m + arange(BM), the same as a row or a column of a larger tile, or repeated.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <optional>

namespace kiln::passes {

// The elements of an i64 tile that grow by one along one axis, or do not grow: offset + start + index, in 64
// bits that may wrap.
struct IndexTile {
  const ir::Value* offset = nullptr; // scalar, no constant; null: 0
  std::int64_t start = 0;
  int axis = -1; // of the tile; -1: none

  bool operator==(const IndexTile&) const = default;
};

// A signed scalar of 32 or 64 bits.
IndexTile scalar_index(const ir::Value* scalar);

// What is known of a tile's elements; none if they are not of this kind.
std::optional<IndexTile> index_tile(const ir::Value* v);
// The same of an i32 tile: with an offset of 32 bits, to which the sums wrap; `start` is exact.
std::optional<IndexTile> index_tile_in_32_bits(const ir::Value* v);

// By how much the elements of a tile of integers or pointers grow from one to the next along an axis (of
// pointers: in elements), in 64 bits that may wrap; none if that is not known, or not everywhere the same.
std::optional<std::int64_t> step_along(const ir::Value* v, int axis);
// By how many elements the places of a gather, a scatter or an access through pointers grow along an axis;
// none also where the indices do that belong to other axes of a view than its contiguous one.
std::optional<std::int64_t> step_in_memory(const ir::Op& op, int axis);

} // namespace kiln::passes
