// How one call of assign is laid out: broadcast to the output, axes merged, cut into tiles. Not for users.
#pragma once

#include <kiln/jit/runtime/assign/assign.h>

namespace kiln::detail {

// The kernel's axes, outermost first, and every view's strides along them, zero where it broadcasts.
struct AssignPlan {
  int rank = 0; // at least 1
  std::int64_t extents[max_rank];
  struct View {
    char* data;
    std::int64_t strides[max_rank];
    DType dtype;
  };
  View out;
  int view_count = 0; // operands that are views, in their order
  View views[max_assign_operands];
  std::int64_t elements = 1;
  // Elements of one program along each axis; axes of one element are no axes of the tile.
  std::int64_t tile[max_rank];
};

// What a compiled variant depends on, beside the expression's type. Compared as bytes.
struct AssignKey {
  std::uint8_t rank;
  std::uint8_t out_unit; // 1: the innermost stride is 1
  std::uint8_t tile_log[max_rank];
  struct View {
    std::uint8_t full; // bit a: varies along axis a; the others are broadcast
    std::uint8_t unit; // as out_unit, of the innermost axis that it varies along
    bool operator==(const View&) const = default;
  } views[max_assign_operands];

  bool equals(const AssignKey& other, int view_count) const;
};

// Broadcasts, merges and tiles. UserErrors as assign.h says.
void plan_assign(AssignPlan& plan, const AssignSite& site, const AssignTarget& out,
                 const AssignOperand* operands, const Location& here);
void choose_tile(AssignPlan& plan, Device device);
void make_key(AssignKey& key, const AssignPlan& plan);

// Whether writing the output could change what another program has yet to read.
bool needs_temporary(const AssignPlan& plan);

} // namespace kiln::detail
