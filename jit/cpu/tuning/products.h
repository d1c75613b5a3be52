// Lists tuned constants of matrix products of many rows; tuning.h explains the rows.
#pragma once

#include <cstdint>

namespace kiln::cpu::tuning {

// --- The register tile (dot/plan.cpp, dot/dot.cpp) ---

// Accumulators: vectors of a row, and rows. More than 28 spill; more than 8 rows lack address registers.
struct RegisterTile {
  int vectors;
  int rows;
};
// 32 registers, at least 4 vectors of columns.
// vectors x rows | Emerald Rapids | 3 % more time with 3 x 8, 3 to 4 % with 4 x 5 | 2026-11-28
inline constexpr RegisterTile register_tile_32 = {4, 6};
// 32 registers, fewer vectors of columns, and the last 3 vectors of columns of the tile above.
// vectors x rows | Emerald Rapids | 3 vectors: 35 % more time with 2 x 8; 1: 18 % with 6 rows | 2026-11-28
inline constexpr RegisterTile narrow_register_tile_32 = {3, 8};
// AVX2, at least 2 vectors of columns.
// vectors x rows | Emerald Rapids, AVX2 code | 12 % more time with 2 x 4, 22 % with 1 x 8 | 2026-11-28
inline constexpr RegisterTile register_tile_16 = {2, 6};
// AVX2, one vector of columns.
// vectors x rows | Emerald Rapids, AVX2 code | 12 % more time with 6 rows, 3 % with 12 | 2026-11-28
inline constexpr RegisterTile narrow_register_tile_16 = {1, 8};
// Plain SSE.
// vectors x rows | Emerald Rapids, SSE code | 13 to 23 % more time with 1 x 8; 7 less with 3 x 4 | 2026-11-28
inline constexpr RegisterTile sse_register_tile = {2, 4};
// Pairs of i16 without the x86 instruction for them.
// vectors x rows | - | derived: the halves of the pairs need registers besides 12 accumulators | 2026-11-20
inline constexpr RegisterTile emulated_pairs_register_tile = {2, 6};
// Few rows take more vectors, to hide the latency of the multiply-add. The vectors for up to 2 rows with 32
// registers:
// vectors | Emerald Rapids | 36 % more time with 4 for 1 x 4096 x 1024 of i8 | 2026-11-28
inline constexpr int two_row_vectors_32 = 8;
// The vectors for up to 2 rows with 16 registers:
// vectors | Emerald Rapids, AVX2 code | 1 x 4096 x 1024 of i8: 24 % more time with 2, 4 % with 6 | 2026-11-28
inline constexpr int two_row_vectors_16 = 4;
// The vectors for up to 4 rows with 32 registers, if the product has that many vectors of columns:
// vectors | Emerald Rapids | 10 % more time with 4 for 4 x 4096 x 1024 of i8 | 2026-11-28
inline constexpr int four_row_vectors_32 = 6;
// The rows of the tile that ends a block whose rows are not a multiple of 6.
// rows | Emerald Rapids | 2 to 3 % more time with 6 for 64 and 100 rows, 1 to 2 % with AVX2 code | 2026-11-28
inline constexpr int short_tile_rows = 4;
// The rows of a tile of one vector, for the last columns: enough sums to hide the latency of the
// multiply-add.
// rows | Emerald Rapids | 15 % more time with 4 for 480 x 80 x 512, 6 % with 6 | 2026-11-28
inline constexpr std::int64_t one_vector_tile_rows = 8;

// The unroll factor of the microkernel's loop over K. With 16 registers, and where another thread shares the
// core, steps compete for issue slots; alone on a core, 8 steps take 2 to 3 % less time than one.
// steps | Zen 3, busy neighbour | 1/4 less time for 512 cubed than with 1, 1/10 less than with 4 | 2026-11-26
inline constexpr int blocked_unrolled_k = 8;
// The unroll factor where each step also prefetches rows of a sliver. 8 saves no more time than 4.
// steps | Emerald Rapids | 2 to 3 % less time than with 1 | 2026-11-26
inline constexpr int slow_l2_unrolled_k = 4;
// The unroll factor of AVX2's sums of pairs of i16, which need one register more.
// steps | - | derived: longer iterations spill | 2026-11-26
inline constexpr int avx2_pairs_unrolled_k = 2;
// The number of rows of a packed sliver that are prefetched into L1, where L2 is slow.
// rows of K | Granite Rapids | 6 to 7 % less time for a large product than without | 2026-11-22
inline constexpr std::int64_t sliver_prefetch_rows = 8;

// --- Chunks (dot/plan.cpp) ---

// With 32 registers, A passes over slivers of B that stay in L2. This is K of a chunk: 512 KiB of packed B
// fit into 1 MiB, and C is read again as rarely as possible.
// elements of K | Emerald Rapids | 3 % more time with 512 for 1000 cubed, 10 % with 256 | 2026-11-28
inline constexpr std::int64_t l2_k_chunk = 1024;
// The number of rows of A that are packed at a time.
// rows | Zen 4 | 5 % less time than 960 x 256 in L2 at 2048 cubed with A transposed | 2026-11-23
inline constexpr std::int64_t l2_m_chunk = 1056;
// The number of slivers of B that are packed at a time: 128 columns.
// slivers | Emerald and Granite Rapids | 4: 1 to 3 % less time; busy neighbour: 1 to 5 % more | 2026-11-26
inline constexpr std::int64_t l2_slivers = 2;
// The number of rows of A that stay in L2 while slivers pass over them, where L2 is slow.
// rows | Emerald Rapids | 3 % more time with 960 for 1000 cubed; 48 and 192 take as long | 2026-11-28
inline constexpr std::int64_t slow_l2_rows = 96;

// With 16 registers, blocks of rows of A stay in L2 while slivers of B pass over them (CPUs with 512 KiB of
// L2), which took products of 32 to 2048 rows from 0.4 to 0.77 of OpenBLAS's speed to 0.95 to 1.08 (Zen 3).
// This is K of a chunk. Sums depend on chunks, so nothing that differs between tiles may choose them.
// elements of K | Zen 3 | 3 to 5 % less time than with 256 for 512 to 2048 cubed | 2026-11-26
inline constexpr std::int64_t blocked_k_chunk = 512;
// The same for skinny products.
// elements of K | Zen 3 | 3 % less time than with 512 | 2026-11-26
inline constexpr std::int64_t blocked_skinny_k_chunk = 256;
// The size of a block of A: a fifth of L2.
// bytes | Zen 3 | 96 to 192 KiB take as long; the less, the less time next to a busy neighbour | 2026-11-21
inline constexpr std::int64_t block_bytes = 96 << 10;
// The number of columns of B that are packed at a time.
// columns | Emerald Rapids, AVX2 code | no gain: 256 to 2048 take as long for 480 x 2048 x 512 | 2026-11-28
inline constexpr std::int64_t blocked_columns = 1024;

// AMX multiplies so fast that loads count: 32 rows of A of this many bytes stay in L1 while columns pass.
// bytes of K | Emerald Rapids | 9 to 17 % more time with 512, 2 to 10 % with 2048 | 2026-11-26
inline constexpr std::int64_t amx_k_chunk_bytes = 1024;
// The same for skinny products, which read B from memory in longer rows.
// bytes of K | Emerald Rapids | 12 to 18 % more time with 1024 for 16 and 32 rows | 2026-11-28
inline constexpr std::int64_t amx_skinny_k_chunk_bytes = 512;
// The number of columns of B that are packed at a time with AMX: half of an L2 of 2 MiB. A group has at most
// as many.
// columns | Granite Rapids | 10 to 14 % less time for bf16 of 1024 to 4096 cubed, with packed A | 2026-11-24
inline constexpr std::int64_t amx_columns = 1024;
// The same in skinny products.
// columns | Emerald Rapids | 6 to 8 % more time with 512 for 32 rows; 3 % less with 1024 for 16 | 2026-11-28
inline constexpr std::int64_t amx_skinny_columns = 2048;
// The smallest number of rows that AMX multiplies; for fewer rows, reading B in place is as quick.
// rows | Emerald Rapids | 5 rows of bf16: 84 % more time with 9; 4 of i8: 26 % with 2 | 2026-11-28
inline constexpr std::int64_t min_amx_rows = 5;
// The smallest number of vectors of columns that AMX multiplies.
// vectors | Emerald Rapids | 512 x 32 x 512: 13 times the time with 3; 16 columns: 1/7 with 1 | 2026-11-28
inline constexpr std::int64_t min_amx_vectors = 2;
// The number of following rows of A that are prefetched into L2 for each 32 columns: 512 columns prefetch all
// 32 rows.
// rows | Granite Rapids | 5 to 8 % less time than without | 2026-11-24
inline constexpr std::int64_t amx_prefetch_rows = 2;
// A is packed for at least this many columns, unless K is one chunk, for which reading A in place is 1/10
// faster.
// columns | Granite Rapids | bf16 of 2048 cubed 16.5 ms in place of 19.7 | 2026-11-22
inline constexpr std::int64_t amx_min_packed_a_columns = 512;

// The number of elements by which rows of packed A are longer than needed, which keeps rows of a chunk out of
// the same sets of the cache.
// elements | Emerald Rapids, AVX2 code | 512 cubed: 16 % more time with 16, 3 % less with 0 | 2026-11-28
inline constexpr std::int64_t packed_a_row_padding = 32;
// The same for rows of A as accumulator elements in skinny products.
// elements | Emerald Rapids | no gain for 4 x 1024 x 1024 and 4 x 2048 x 2048 | 2026-11-28
inline constexpr std::int64_t wide_a_row_padding = 16;

// --- Packing, and reading in place (dot/operands.cpp, dot/pack.cpp) ---

// B is read in place if its rows span at most this many bytes, so that they stay in the cache.
// bytes | Emerald Rapids | B of 512 KiB: 3 % more time with less; of 2 MiB: 23 % with 2 MiB | 2026-11-28
inline constexpr std::int64_t max_in_place_b_bytes = 1 << 19;
// The same with 16 registers.
// bytes | Emerald Rapids, AVX2 code | B of 256 KiB: 2 to 3 % more time with 256 KiB | 2026-11-28
inline constexpr std::int64_t blocked_max_in_place_b_bytes = 1 << 16;
// The number of rows of B that are packed at a time for all slivers of a group: rows of a large matrix are
// pages apart.
// rows | (Zen 5) | 2048 cubed in tiles: 0.87 of OpenBLAS, with slivers one by one 0.74 | 2026-11-20
inline constexpr std::int64_t packed_rows = 32;
// The same for slivers one line wide: more rows would be more streams than the hardware prefetches.
// rows | Zen 3 | 1/10 less time at 64 x 4096 x 4096 | 2026-11-21
inline constexpr std::int64_t blocked_packed_rows = 8;
// With 16 registers, blocks of A are packed unless neighbouring rows are at most this far apart. Rows that
// are pages apart, above all a little less or more than a power of two, would share a few sets of L2.
// bytes | Zen 3 | 10 to 25 % less time | 2026-11-21
inline constexpr std::int64_t max_in_place_a_row_bytes = 2048;
// Fewer columns than this do not repay packing A.
// columns | Emerald Rapids, AVX2 code | 64 columns: 14 % more time with 32; 128: 6 less with 512 | 2026-11-28
inline constexpr std::int64_t min_packed_a_columns = 128;
// The distance at which packing prefetches rows into L2, where the hardware does not; then the same where
// rows are grouped. Compared with prefetching into L1, 32 rows of i8 take 1/10 less time, and 128 rows 3 to
// 6 % less.
// rows | Zen 4 | 1/4 to 1/3 less time for 1 row of i8 than with prefetches into L1 | 2026-11-22
inline constexpr int pack_prefetch_rows = 16, pack_prefetch_grouped_rows = 32;
// The distance at which packing prefetches contiguous columns, of which it reads sixteen at once.
// bytes | Emerald Rapids | 3 % more time with 1024 for 64 x 2048 x 2048, 6 % with 2048 | 2026-11-28
inline constexpr std::int64_t pack_prefetch_column_bytes = 512;
// The number of vectors of a contiguous row that are packed together: a row of the register tile.
// vectors | Emerald Rapids | 1 to 3 % more time with 1 or 2 for 64 x 2048 x 2048 | 2026-11-28
inline constexpr int packed_vectors = 4;
// The unroll factor of packing rows that are exactly as long as a sliver.
// rows | Emerald Rapids | no gain: 1, 2 and 8 take as long for 64 x 2048 x 2048 | 2026-11-28
inline constexpr int pack_unroll = 4;

} // namespace kiln::cpu::tuning
