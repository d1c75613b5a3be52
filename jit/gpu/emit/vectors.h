// How many neighbouring registers of a tile one access to memory may take.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <kiln/dsl/dtype.h>

namespace kiln::gpu {

inline constexpr int widest_access = 16; // bytes

// Of an element as it lies in memory.
inline int memory_bytes(DType t) { return t == DType::Bool ? 1 : size_of(t); }

// How many registers, from the first, are neighbours along `axis`.
int run_along(const LinearLayout& layout, int axis);

// Whether the place in the tile of each vector of so many registers is a multiple of them along `axis`.
bool starts_aligned(const LinearLayout& layout, int axis, int vector);

} // namespace kiln::gpu
