// Declares the counting of the blocks of scores that attention computes and skips, for `kiln explain`.
#pragma once

#include <kiln/ops/detail/op_kernel.h>

#include <cstdint>

namespace kiln::ops::detail {

// The blocks of one head: those that the mask shows whole, which are computed without it, those that it shows
// in part, and those that are skipped.
struct AttentionBlocks {
  std::int64_t whole = 0, masked = 0, skipped = 0;
};
// Their sum.
std::int64_t attention_blocks_of(const Config& config, std::int64_t queries, std::int64_t keys);
// For a causal mask if `variant` has one. The bounds of the mask are those of the kernels, and are computed by
// the reference interpreter.
AttentionBlocks count_attention_blocks(const OpVariant& variant, const Config& config, std::int64_t queries,
                                       std::int64_t keys);

} // namespace kiln::ops::detail
