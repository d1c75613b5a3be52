// Chooses the layout of each tile of a kernel.
//
// Precondition: the kernel is bound and lowered (passes::lower_generic).
//
// Rules:
// 1. Tiles that take no memory accesses to compute are *free*: splats, aranges, and what elementwise
//    operations, broadcasts and changes of axes make of them in a few operations. Each use computes them
//    again, in the layout that it needs.
// 2. A load from a view is coalesced: neighbouring lanes have neighbouring elements along the axis that is
//    contiguous in memory, and each lane has 16 bytes of them if the tile is large enough. A load through
//    pointers and an atomic have the layout of their pointers. Gathers, and loads whose pointers are free,
//    are blocked.
// 3. The result of a reduction has the layout of its operand without the axis, so all places that held a part
//    of a row know the result. A scan keeps the layout of its operand.
// 4. If such a result is broadcast back, it has the layout of the tile that was reduced, so that a softmax
//    converts nothing.
// 5. The result of an elementwise operation has the layout of its first operand that is not free; bool
//    operands are considered last. The mask of a view has the layout of a tile that was loaded from the view.
// 6. A tile that a loop carries has the layout of its initial value or, if that is free, of the value that
//    the loop yields. The result of an if has the layout of what its branches yield.
// 7. A dot that fits tensor cores (mma_factors) has the accumulator layout of mma.sync. Other dots are
//    blocked.
// 8. The result of a gather has the layout of its indices. Those of a sort are blocked: the network is
// planned
//    for that layout. So is a histogram.
// 9. A reshape leaves every element in its place if all extents are powers of two. Otherwise its result is
//    blocked.
//
// Where an operation needs an operand in another layout, the emitter converts it.
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
  // The layout of every tile that is not free.
  std::unordered_map<const ir::Value*, LinearLayout> layouts;

  const LinearLayout* find(const ir::Value* v) const {
    auto at = layouts.find(v);
    return at == layouts.end() ? nullptr : &at->second;
  }
};

// `warps` is a power of two.
LayoutPlan plan_layouts(const ir::Kernel& lowered, int warps);

// The logarithm of each extent, padded to a power of two.
std::vector<int> shape_bits(const ir::Type& tile);

// `layout`, of a tile of type `from`, as a layout of the same elements in the shape of `to`. None if an
// extent is no power of two: the bits of the coordinates in one shape are not those of the other then.
std::optional<LinearLayout> reshaped_layout(const LinearLayout& layout, const ir::Type& from,
                                            const ir::Type& to);

// The blocked layout, in which a free tile is computed if its use does not need another one.
LinearLayout default_layout(const ir::Type& tile, int warps);

// How mma.sync takes the factors of a dot: as which dtypes (F32 stands for tf32), and how deep one
// instruction goes.
struct MmaFactors {
  DType a, b;
  int element_bits;
  int depth() const { return 256 / element_bits; } // 32 bytes
};
// None for a dot that mma.sync does not fit. It fits factors of f16, of bf16, of 8-bit floats, and of f32 if
// the precision is tf32, with sums in f32; and factors of 8-bit integers with sums in i32. The depth must be
// a power of two and at least that of one instruction, and the result must have at least 9 rows and 5
// columns.
std::optional<MmaFactors> mma_factors(const ir::Op& dot);
// The layout of the sums of such a dot. Warps divide a batch first, so that each warp has factors of its own.
LinearLayout mma_layout(const ir::Type& sums, int warps);
// The layout of factor 0 or 1 of such a dot.
LinearLayout mma_factor_layout(const ir::Op& dot, int factor, int warps);
// The layout for loads and stores that is coalesced along the contiguous axis of the view.
LinearLayout coalesced_layout(const ir::Op& view_access, const ir::Type& tile, int warps);
// The layout in which a view_store writes a tile that has layout `value`: coalesced_layout if neither
// neighbouring registers nor neighbouring lanes are neighbours along the contiguous axis, as after a
// transpose, and else `value`.
LinearLayout store_layout(const ir::Op& view_store, const LinearLayout& value, int warps);

} // namespace kiln::gpu
