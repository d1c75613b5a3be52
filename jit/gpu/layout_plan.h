// Decides in which layout each tile of a kernel lives.
//
// Preconditions: the kernel is bound and lowered (passes::lower_generic).
//
// Rules, in the order in which they are tried:
//   1. Tiles that cost nothing are *free*: splats, aranges, what views of shapes and cheap arithmetic make of
//      them. They are computed in whatever layout a user wants.
//   2. A load from a view is coalesced: neighbouring lanes along the axis that is contiguous in memory, 16
//   bytes
//      to a lane where the tile is large enough. Gathers and pointer loads follow their indices, or are
//      blocked.
//   3. A reduction leaves its operand's layout without the axis: all places that held the row know the
//   result. A scan keeps it.
//   4. A row that such a result is broadcast back over has the layout of the tile that was reduced, so that a
//      softmax converts nothing.
//   5. An elementwise operation has the layout of its first operand that is not free.
//   6. A loop's carried tile has the layout of its initial value; if that is free, of the value that the loop
//      yields.
//   7. A dot that fits tensor cores (fits_mma) has the accumulator layout of mma.sync; others are blocked
//   over
//      rows and columns.
// Where an operand's layout is another than its user's, the emitter converts it.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/linear_layout.h>
#include <kiln/jit/passes/axis_info.h>

#include <optional>
#include <string>
#include <unordered_map>

namespace kiln::gpu {

struct LayoutPlan {
  int warps = 4;
  // Of every tile that is not free.
  std::unordered_map<const ir::Value*, LinearLayout> layouts;

  const LinearLayout* find(const ir::Value* v) const {
    auto at = layouts.find(v);
    return at == layouts.end() ? nullptr : &at->second;
  }
};

// `warps` is a power of two.
LayoutPlan plan_layouts(const ir::Kernel& lowered, int warps);

// Bits of each axis, extents padded to powers of two.
std::vector<int> shape_bits(const ir::Type& tile);

// For a free tile that a user takes as it comes.
LinearLayout default_layout(const ir::Type& tile, int warps);
// Whether a dot is one of mma.sync.m16n8k16's: f16 or bf16 factors, f32 sums, no batch, a depth that is a
// power of two of at least 16, at least 16 rows and 8 columns.
bool fits_mma(const ir::Op& dot);
LinearLayout mma_layout(const ir::Type& sums, int warps);
// For stores and loads: coalesced along the view's contiguous axis.
LinearLayout coalesced_layout(const ir::Op& view_access, const ir::Type& tile, int warps);

} // namespace kiln::gpu
