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
//   5. An elementwise operation has the layout of its first operand that is not free, masks last. A view's
//   mask has that of what was loaded from the view.
//   6. A loop's carried tile has the layout of its initial value; if that is free, of the value that the loop
//      yields.
//   7. A dot that fits tensor cores (mma_factors) has the accumulator layout of mma.sync; others are blocked
//   over
//      rows and columns.
// Where an operand's layout is another than its user's, the emitter converts it.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/gpu/layout/linear_layout.h>
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

// Where the elements of a tile of type `from` are, under the shape of `to`. None between other shapes than
// powers of two, where a coordinate's bits have no such names.
std::optional<LinearLayout> reshaped_layout(const LinearLayout& layout, const ir::Type& from,
                                            const ir::Type& to);

// For a free tile that a user takes as it comes.
LinearLayout default_layout(const ir::Type& tile, int warps);
// How mma.sync takes a dot's factors: its dtypes (F32 stands for tf32) and how deep one instruction goes.
struct MmaFactors {
  DType a, b;
  int element_bits;
  int depth() const { return 256 / element_bits; } // 32 bytes
};
// None for a dot that does not fit: f16, bf16, 8-bit floats, or f32 where tf32 is asked for, into f32; 8-bit
// integers into i32; a depth that is a power of two and an instruction's at least, at least 9 rows and 5
// columns.
std::optional<MmaFactors> mma_factors(const ir::Op& dot);
// Warps divide a batch first, so that what one multiplies is its own.
LinearLayout mma_layout(const ir::Type& sums, int warps);
// Of factor 0 or 1 of a dot that fits.
LinearLayout mma_factor_layout(const ir::Op& dot, int factor, int warps);
// For stores and loads: coalesced along the view's contiguous axis.
LinearLayout coalesced_layout(const ir::Op& view_access, const ir::Type& tile, int warps);
// In which a view_store writes a tile that lives in `value`: coalesced where neither neighbouring registers
// nor neighbouring lanes walk along the contiguous axis, as after a transpose.
LinearLayout store_layout(const ir::Op& view_store, const LinearLayout& value, int warps);

} // namespace kiln::gpu
