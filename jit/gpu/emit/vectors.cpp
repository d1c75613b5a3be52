// Counts register bits that step along one axis, and tests where vectors start.
#include <kiln/jit/gpu/emit/vectors.h>

#include <kiln/jit/gpu/layout/layouts.h>

#include <bit>

namespace kiln::gpu {

int run_along(const LinearLayout& layout, int axis) {
  int bits = 0;
  while (bits < layout.in_bits(in_register)) {
    std::int64_t image = layout.basis(in_register, bits, axis_name(axis));
    if (image != std::int64_t{1} << bits || std::popcount(layout.column(in_register, bits)) != 1) break;
    ++bits;
  }
  return 1 << bits;
}

bool starts_aligned(const LinearLayout& layout, int axis, int vector) {
  const int bits = std::countr_zero(static_cast<unsigned>(vector));
  for (const char* side : {in_register, in_lane, in_warp})
    for (int i = side == in_register ? bits : 0; i < layout.in_bits(side); ++i)
      if (layout.basis(side, i, axis_name(axis)) & (vector - 1)) return false;
  return true;
}

} // namespace kiln::gpu
