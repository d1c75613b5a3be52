// Chooses tile sizes for kernels on rows: a tile covers the whole row if it fits, otherwise the kernel loops
// over it.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/ops/array.h>

namespace kiln::ops::detail {

struct RowConfig {
  bool whole = false; // whether BN covers the whole row
  Config config;      // BM and BN, and num_warps for a GPU
};
// `bytes` is the size of an element in the type in which the op computes, and `line_rows` the result of
// rows_of_line for the matrix that is read.
RowConfig row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes,
                     std::int64_t line_rows = 1);
// Stands for the number of rows in a config that must not depend on it.
inline constexpr std::int64_t any_rows = 1 << 20;
// The number of rows that share the cache lines of a matrix: more than 1 if it is transposed.
std::int64_t rows_of_line(const Array& x);

// The tuner's knob for `whole`. It selects the kernel and is not a dimension of either kernel, so
// without_whole removes it from a config before a launch.
inline constexpr const char* whole_knob = "whole";
Config without_whole(const Config& config);

} // namespace kiln::ops::detail
