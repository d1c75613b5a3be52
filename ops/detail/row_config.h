// Tile sizes for kernels that work on whole rows: one tile a row if it fits, else loops over parts of it.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>

namespace kiln::ops::detail {

struct RowConfig {
  bool whole = false; // BN covers the row
  Config config;      // BM and BN, for a GPU num_warps too
};
// `bytes` of one element as it is computed with.
RowConfig row_config(Device device, std::int64_t rows, std::int64_t columns, std::int64_t bytes);

// The tuner's knob for `whole`: it chooses the kernel, and is no dimension of either.
inline constexpr const char* whole_knob = "whole";
Config without_whole(const Config& config);

} // namespace kiln::ops::detail
