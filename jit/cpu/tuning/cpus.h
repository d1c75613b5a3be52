// Lists properties of CPUs that neither LLVM nor the system reports; tuning.h explains the rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kiln::cpu::tuning {

// The L2 of one core.
// bytes | - | derived: Zen 4 and 5 have 1 MiB | 2026-11-22
inline constexpr std::int64_t usual_l2_bytes = 1 << 20;
// The L2 of one core of a CPU with AMX.
// bytes | - | derived: Sapphire, Emerald and Granite Rapids have 2 MiB | 2026-11-22
inline constexpr std::int64_t amx_l2_bytes = 2 << 20;

// Whether data that has left L2 returns about as slowly as from memory, so that prefetched data must not
// displace data in use and must be read soon. That holds for Intel's CPUs with AVX-512 (SSE4a identifies
// AMD's). L3 gives 19 GB/s to a core of a Granite Rapids, memory 18.
// condition | Granite Rapids | norms and softmax of rows of 16 to 160 KiB: 20 to 25 % less time | 2026-11-25
constexpr bool l3_is_slow(bool avx512, bool sse4a) { return avx512 && !sse4a; }

// A larger L3 than the first of these is spread over the chip and shared by all of its cores; the second is
// the part of it in which a kernel finds the results of the one before.
// bytes | Granite Rapids | L3 of 480 MiB: 27 % less time for 64 MiB, 12 % for 32, none for 16 | 2026-11-25
inline constexpr std::int64_t largest_near_l3 = std::int64_t{96} << 20,
                              reused_bytes_of_far_l3 = std::int64_t{32} << 20;
// What stands for a smaller L3, and for one of unknown size.
// bytes | - | not measured: 8 MiB is a small L3, and 64 MiB is larger than most | 2026-11-20
inline constexpr std::int64_t min_reused_bytes = std::int64_t{8} << 20,
                              usual_reused_bytes = std::int64_t{64} << 20;
// The size in bytes from which a kernel's results should bypass the caches, because the next kernel would not
// find them there. `l3_bytes` is the size of the L3 cache, or 0 if unknown.
constexpr std::int64_t reused_bytes(std::int64_t l3_bytes) {
  if (l3_bytes <= 0) return usual_reused_bytes;
  return l3_bytes > largest_near_l3 ? reused_bytes_of_far_l3 : std::max(l3_bytes, min_reused_bytes);
}

// Whether lines of L2 arrive too late unless they are prefetched. Zen 5 reaches its peak without prefetching.
// condition | Granite Rapids | 6 to 7 % less time for a large product | 2026-11-22
constexpr bool l2_is_slow(bool avx512, bool amd) { return avx512 && !amd; }

// Whether the hardware prefetcher fetches rows of B that lie pages apart early enough by itself.
// condition | Zen 3 | software prefetches take 1/3 more time for 1 row, 1/7 for 18 rows | 2026-11-26
constexpr bool hardware_prefetches_rows(bool avx2, bool avx512) { return avx2 && !avx512; }

// Registers per step of a vector loop that evaluates functions such as exp, on AVX2 without AVX-512. Zen 3's
// schedulers hold 64 floating-point operations, little more than one vector's exponential. AVX-512 is bound
// by arithmetic with one register already.
// registers | Zen 3 | 20 to 30 % less time than with 1 for softmax and silu | 2026-11-21
inline constexpr int avx2_registers_per_step = 4;

// Whether LLVM reduces the strength of address computations on x86. Without it fewer pointers are live, and
// fewer are spilled; matmul, attention, norms, transpositions and sums stay within 2 %.
// condition | Zen 4 | off: 1/5 less time for softmax in cache, up to 1/4 less to compile | 2026-11-23
inline constexpr bool x86_strength_reduction = false;

} // namespace kiln::cpu::tuning
