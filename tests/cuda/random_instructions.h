// Generates random sequences of PTX instructions whose results are fixed to the bit, to compare GPUs with the
// emulated one.
#pragma once

#include <cstdint>
#include <string>

namespace kiln::test {

// The kernel `k(.param .u64 in, .param .u64 out)`, whose blocks have a multiple of 32 threads. A thread reads
// `words_per_thread` words of `in`, computes, and writes as many to `out`. It uses integers and bits of every
// width, floats in every rounding mode, conversions, comparisons, shuffles, votes, divergent branches, and
// local and shared memory with atomics. NaNs of f64, whose bits PTX does not define, are replaced by one NaN.
constexpr int words_per_thread = 32;
std::string random_instructions(std::uint64_t seed, int count);

// A kernel that applies one approximation to each word. `text` is "ex2.approx.f32 %d, %a;", for example.
std::string one_approximation(const std::string& text);

} // namespace kiln::test
