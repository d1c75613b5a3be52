// Lists tuned constants of skinny products, which take as long as reading B; tuning.h explains the rows.
#pragma once

#include <cstdint>

namespace kiln::cpu::tuning {

// A product of at most this many rows of A is skinny. All skinny products use inner products if the columns
// of B are in the order of memory, except that AMX multiplies more than a few rows.
// rows | Emerald Rapids | 32 rows: 26 % more time with 16; 48: 2 to 15 % less with 64 | 2026-11-28
inline constexpr std::int64_t skinny_rows = 32;
// The largest number of rows of A for outer products, which read B in the order of memory.
// rows | Emerald Rapids | 4 x 2048 x 2048: 66 % more time with 2; 6, 8 rows: as long with 8 | 2026-11-28
inline constexpr std::int64_t outer_product_rows = 4;
// The same on CPUs with 16 registers, where B is packed for more rows.
// rows | Emerald Rapids, AVX2 code | 6 rows: 69 % more time with 4; 8: 38 % less with 8 | 2026-11-28
inline constexpr std::int64_t blocked_outer_product_rows = 6;
// The largest number of rows of A for inner products where AMX multiplies more rows.
// rows | Emerald Rapids | no gain over 1 for 4 rows of bf16; 32 % less time with 8 for 8 rows | 2026-11-28
inline constexpr std::int64_t amx_inner_product_rows = 4;
// For a K shorter than this, inner products do not repay adding up the lanes.
// elements of K | Emerald Rapids | K of 32: 2.5 times the time with 16; 96: 5 % less with 128 | 2026-11-28
inline constexpr std::int64_t min_inner_product_k = 64;

// The number of rows of B that an outer product takes at a time.
// rows of B | Emerald Rapids | 2 to 5 % more time with 4 for 1 x 4096 x 4096 and 4 x 2048 x 2048 | 2026-11-28
inline constexpr int outer_product_k = 8;
// The number of vectors of columns that it takes at a time.
// vectors | Zen 3 | one row with 16 registers: less time than with 4 | 2026-11-26
inline constexpr int outer_product_vectors = 2;
// The same for one row of A with 32 registers.
// vectors | Zen 4 | 2 to 4 % less time than with 2 for 1 x 28672 x 4096 | 2026-11-26
inline constexpr int one_row_outer_product_vectors = 4;
// Outer products take columns in runs. This is the number of sums of a run in all rows, which L2 holds: each
// run starts to read as many lines as rows are taken, and memory is slow to follow. Runs of 4096 columns are
// 20 % faster than of 1024 (Zen 3).
// elements of C | (Zen 4) | runs of 28672 columns 1/10 faster than runs of 8192 | 2026-11-23
inline constexpr std::int64_t outer_product_run = 32768;
// The smallest number of columns of a run. It has no effect: at most 6 rows share outer_product_run sums.
// columns | - | derived: 32768 sums of 6 rows are 5461 columns | 2026-11-28
inline constexpr std::int64_t min_outer_product_run = 1024;
// The distance at which B is prefetched into L2.
// bytes | Zen 4 | 15 to 25 % less time than without, 8 to 14 % for one row | 2026-11-22
inline constexpr std::int64_t skinny_prefetch_bytes = 1024;
// Columns of B are prefetched only if they fill more than this many times L2, and so lie in memory.
// L2s | Zen 4 | one row: 9 to 14 % less time from memory, 12 to 19 % more from L3 | 2026-11-24
inline constexpr std::int64_t min_prefetched_b_l2s = 16;
// The rows of A whose inner products are added up together, for the columns below: 24 sums and 10 loads.
// rows | Emerald Rapids | 32 x 2048 x 2048: 13 % more time with 2, 51 % with 6, which spill | 2026-11-28
inline constexpr std::int64_t inner_product_tile_rows = 4;
// The columns of B whose inner products are added up together.
// columns | Emerald Rapids | 32 x 2048 x 2048: 3 % more time with 4, 30 % with 8, which spill | 2026-11-28
inline constexpr int inner_product_tile_columns = 6;
// The same with 16 registers, and for a short K.
// columns | Emerald Rapids, AVX2 code | 32 rows: 14 % more time with 3, 34 % with 6, which spill | 2026-11-28
inline constexpr int short_inner_product_tile_columns = 4;
// The largest K that is short for inner products.
// elements of K | - | derived: 16 products for each of which 3 instructions add up lanes | 2026-11-29
inline constexpr std::int64_t short_inner_product_k = 256;
// The same for one row.
// columns | Zen 4 | 6 % less time than with 6 for 1 x 4096 x 4096 | 2026-11-25
inline constexpr int one_row_inner_product_columns = 8;
// The rows with 16 registers: 12 sums and 7 loads.
// rows | Emerald Rapids, AVX2 code | 32 rows: 17 % more time with 2, 80 % with 4, which spill | 2026-11-28
inline constexpr std::int64_t blocked_inner_product_rows = 3;

// Products that read B line by line (dot/line_products.h): the largest number of rows of A. For more rows the
// arithmetic takes longer than reading B, and A is loaded too often.
// rows | - | derived: 8 rows of bf16 take as long as reading B | 2026-11-29
inline constexpr std::int64_t line_product_rows = 8;
// The largest number of vectors of a line, for which code is emitted one by one.
// vectors | - | derived: lines of 1 KiB; 16 columns of 16 vectors are 256 products a row | 2026-11-29
inline constexpr std::int64_t max_line_vectors = 16;
// The rows and vectors of C that outer products keep in registers: the largest number of rows with 32 and with
// 16 registers, of sums with as many registers, of vectors of a row, and the smallest number of vectors unless
// the row is shorter.
// rows, sums, vectors | - | derived: 24 sums and 4 to 8 vectors of B | 2026-11-29
inline constexpr std::int64_t line_product_tile_rows = 6, blocked_line_product_rows = 2,
                              line_product_sums = 24, blocked_line_product_sums = 8, line_product_vectors = 8,
                              min_line_product_vectors = 4;
// The distance at which lines are prefetched into L2.
// bytes | Zen 4 | one row: f32 as long with 4096, bf16 20 % more time | 2026-11-29
inline constexpr std::int64_t line_prefetch_bytes = 2048;

// The longest row whose successor in the next iteration a gather prefetches.
// bytes | - | derived: 16 prefetches | 2026-11-29
inline constexpr std::int64_t max_prefetched_row_bytes = 1024;

// K of a chunk where several register tiles of rows read B in place. Neighbouring rows of B lie pages apart,
// and L2 keeps little more than a hundred of such rows. B is prefetched half a chunk ahead.
// elements of K | Zen 4 | 1/10 to 1/3 less time than whole chunks for 18 and 32 rows | 2026-11-22
inline constexpr std::int64_t streamed_k_chunk = 96;
// The same where L2 is slow.
// elements of K | Granite Rapids | 1/2 the time of whole chunks for 18 and 32 rows | 2026-11-22
inline constexpr std::int64_t slow_l2_streamed_k_chunk = 48;
// K of a chunk where bytes are packed for at most outer_product_rows rows: L1 keeps a sliver.
// elements of K | Zen 4 | 1/5 to 1/3 less time for 1 to 4 rows | 2026-11-22
inline constexpr std::int64_t skinny_bytes_k_chunk = 96;

} // namespace kiln::cpu::tuning
