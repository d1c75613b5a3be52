// Declares the heuristic configs of ops, which are also where searches begin. kernels.h, matmul.h and
// row_config.h declare others.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/dtype.h>
#include <kiln/jit/runtime/device.h>

#include <cstdint>

namespace kiln::ops::detail {

// Of rows with K columns, in this many groups, times matrices [K, N].
Config grouped_matmul_config(Device device, DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k,
                             std::int64_t groups);
// Of the gradient with respect to these matrices.
Config grouped_backward_b_config(Device device, DType dtype, std::int64_t rows, std::int64_t n,
                                 std::int64_t k, std::int64_t groups);

// Of elements that are computed one by one, in a matrix with this many columns.
Config elements_config(Device device, std::int64_t columns);
// Of kernels whose programs have a part of one row.
Config row_part_config(Device device, std::int64_t columns);

// Of rotary embedding; `pairs` is the number of pairs of a head.
Config rotary_config(Device device, std::int64_t heads, std::int64_t tokens, std::int64_t pairs);
// The tile of cache_append, HEADS and TOKENS; `width` is that of a head.
Config append_config(Device device, std::int64_t heads, std::int64_t tokens, std::int64_t width);

Config route_config(std::int64_t experts, std::int64_t slots);

} // namespace kiln::ops::detail
