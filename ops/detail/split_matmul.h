// Declares products whose K is divided into parts, for few result tiles and a long K.
//
// A kernel computes the sums of each part, in f32 or f64 (i32 for integers), into the call's workspace; a
// second one adds them in the order of the parts and has the whole epilogue. The parts of a product depend on
// its N, K and dtype only, so that its bits depend neither on the number of threads nor on the other rows.
#pragma once

#include <kiln/ops/detail/matmul_kernel.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops::detail {

// A heuristic: the K of a part, or 0 if a product of matrices is not divided. With matmul_fixed_order in the
// options, neither m nor the number of threads or multiprocessors counts.
std::int64_t split_part(Device device, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                        std::uint32_t options);

// `op` is named in the note for rehearsals.
void launch_split(const char* op, const StreamAt& at, const MatmulCall& call, std::int64_t part);

} // namespace kiln::ops::detail
