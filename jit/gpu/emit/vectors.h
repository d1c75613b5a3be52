// Finds how many neighbouring registers of a tile one memory access may take.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <kiln/dsl/dtype.h>

namespace kiln::gpu {

inline constexpr int widest_access = 16; // bytes

// The size of an element in memory.
inline int memory_bytes(DType t) { return t == DType::Bool ? 1 : size_of(t); }

// How many registers, from the first one on, hold neighbouring elements along `axis`.
int run_along(const LinearLayout& layout, int axis);

// Whether every vector of `vector` registers starts at a multiple of `vector` along `axis`.
bool starts_aligned(const LinearLayout& layout, int axis, int vector);

} // namespace kiln::gpu
