// Plans one call of assign: broadcasts the operands to the output, merges axes, and chooses tiles. Internal.
#pragma once

#include <kiln/jit/runtime/assign/assign.h>

namespace kiln::detail {

// How a view lies along the last axis of the kernel. If that axis is made of narrow rows, one after the other
// in memory, a view either varies along all of it, or repeats one row for all rows, or repeats one element of
// a column along each row. A view whose rows are another distance apart than those of the output varies along
// all of it as well, but has two axes: one of rows and one of columns.
enum class AlongRows : std::uint8_t { All, Row, Column, Apart };

// The kernel's axes, outermost first, and the strides of all views along them. A stride is zero where a view
// broadcasts. If `narrow` is positive, the last axis is made of rows of this many elements, of which the
// first `width` belong to the output and the others are padding between its rows.
struct AssignPlan {
  int rank = 0; // at least 1
  std::int64_t extents[max_rank];
  struct View {
    char* data;
    std::int64_t strides[max_rank];
    DType dtype;
    AlongRows along_rows;
    std::int64_t row_stride = 0; // AlongRows::Apart
  };
  View out;
  int view_count = 0; // number of operands that are views; they are in the order of the operands
  View views[max_assign_operands];
  std::int64_t elements = 1;
  // Elements of one program along each axis, or rows along an axis of narrow rows. Axes with one element are
  // not part of the tile.
  std::int64_t tile[max_rank];
  int narrow = 0, width = 0;
  // If positive, the axis before the last has this many elements, which are the columns of narrow rows.
  int columns = 0;

  // The elements of a program along an axis.
  std::int64_t tile_elements(int axis) const {
    return tile[axis] * (narrow > 0 && axis == rank - 1 ? narrow : 1);
  }
  // The elements of a view along an axis that it is not broadcast along.
  std::int64_t extent_of(const View& view, int axis) const {
    if (narrow == 0 || axis < rank - 1 || view.along_rows == AlongRows::All) return extents[axis];
    return view.along_rows == AlongRows::Row ? width : (extents[axis] - 1) / narrow + 1;
  }
};

// The key of a compiled variant, besides the type of the expression. Keys are compared as bytes.
struct AssignKey {
  std::uint8_t rank;
  std::uint8_t narrow, width, columns; // as in AssignPlan
  std::uint8_t out_unit;               // 1: the innermost stride is 1
  std::uint8_t tile_log[max_rank];
  struct View {
    std::uint8_t full; // bit a is set if the view varies along axis a; it is broadcast along the others
    std::uint8_t unit; // as out_unit, for the innermost axis along which the view varies
    AlongRows along_rows;
    bool operator==(const View&) const = default;
  } views[max_assign_operands];

  bool equals(const AssignKey& other, int view_count) const;
};

// Broadcasts, merges axes and chooses tiles. The UserErrors are those of assign.h.
void plan_assign(AssignPlan& plan, const AssignSite& site, const AssignTarget& out,
                 const AssignOperand* operands, const Location& here);
// May merge the last two axes into one of narrow rows, or exchange them, for CPUs.
void choose_tile(AssignPlan& plan, Device device);
void make_key(AssignKey& key, const AssignPlan& plan);

// Whether writing the output could change elements that another program has not read yet.
bool needs_temporary(const AssignPlan& plan);

} // namespace kiln::detail
