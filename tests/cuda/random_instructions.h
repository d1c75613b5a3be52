// Random sequences of PTX instructions whose results are fixed to the bit, for GPUs and the emulated one to
// agree on.
#pragma once

#include <cstdint>
#include <string>

namespace kiln::test {

// The kernel `k(.param .u64 in, .param .u64 out)` of one warp-multiple of threads a block. A thread reads
// `words_per_thread` words of `in`, computes, and writes as many to `out`: integers and bits of every width,
// floats in every rounding, conversions, comparisons, shuffles, votes, divergent branches, local and shared
// memory and its atomics. NaNs of f64, whose bits PTX leaves open, become one.
constexpr int words_per_thread = 32;
std::string random_instructions(std::uint64_t seed, int count);

// One kernel for one approximation, `text` of which is "ex2.approx.f32 %d, %a;": a word in, a word out.
std::string one_approximation(const std::string& text);

} // namespace kiln::test
