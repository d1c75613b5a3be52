// Lists tuned constants of products that programs share; tuning.h explains the rows.
#pragma once

#include <kiln/jit/cpu/tuning/products.h>

#include <cstdint>

namespace kiln::cpu::tuning {

// --- Limits of a group (facts/grouped_product.cpp) ---

// The number of steps of K that are gathered in scratch at a time where operands are computed.
// elements of K | Emerald Rapids | silu(A): 5 to 10 % more time with 1024, 3 to 5 less with 256 | 2026-11-28
inline constexpr std::int64_t gathered_k = 512;
// The largest size of computed operands of A per chunk of K.
// bytes of A | Emerald Rapids | 7 % more time with 64 KiB for silu(A) of 1024 x 1024 | 2026-11-28
inline constexpr std::int64_t max_gathered_a_bytes = 1 << 20;
// The same for B, whose operands are read again for each register tile of rows.
// bytes of B | Emerald Rapids | dequantised B: 16 % more time with 4 MiB, 86 % for 8 rows | 2026-11-28
inline constexpr std::int64_t max_gathered_b_bytes = 1 << 18;

// The largest number of rows of a group: packing B is amortised over them.
// rows | Emerald Rapids | 1024 cubed in tiles of 64 x 64: 3 % more time with 512, 10 % with 256 | 2026-11-28
inline constexpr std::int64_t max_group_rows = 1024;
// The largest number of columns of a group: 128 packed columns of B, and sums that an epilogue reads, take
// about 1 MiB or less.
// columns | Emerald Rapids, L2 taken as 1 MiB | 1 to 2 % more time with 64 for 1024 cubed | 2026-11-28
inline constexpr std::int64_t max_group_columns = 128;
// The same with an L2 of 2 MiB.
// columns | Emerald Rapids | no gain: 128 and 512 take as long for 1024 cubed | 2026-11-28
inline constexpr std::int64_t large_l2_max_group_columns = 256;
// The same where A is packed too: each of its elements is packed for all columns of the group.
// columns | Emerald Rapids | A transposed, 1024 cubed: 3 % more time with 512, 11 % with 256 | 2026-11-28
inline constexpr std::int64_t packed_a_max_group_columns = 1024;
// The same with 16 registers and an epilogue.
// columns | Emerald Rapids, AVX2 code | no gain: 128 and 1024 take as long for 512 x 1024 x 512 | 2026-11-28
inline constexpr std::int64_t blocked_epilogue_max_group_columns = 512;
// The largest number of sums of such a group: 1 MiB.
// sums | Emerald Rapids, AVX2 code | 1 to 2 % more time with 2^16 for 1024 x 1024 x 256 | 2026-11-28
inline constexpr std::int64_t blocked_epilogue_max_group_sums = 1 << 18;
// The largest number of rows of a group with AMX, whose largest number of columns is amx_columns.
// rows | Emerald Rapids | 9 % more time with 1024 for 2048 x 1024 x 1024 of bf16, 16 % with 512 | 2026-11-28
inline constexpr std::int64_t amx_max_group_rows = 2048;
// The same for skinny tiles, which mostly belong to skinny matrices, whose B is best read in long rows.
// columns | Emerald Rapids | 25 % more time with 256 for 16 x 4096 x 2048, none with 4096 | 2026-11-28
inline constexpr std::int64_t skinny_max_group_columns = 1024;
// The same with 16 registers.
// columns | Emerald Rapids, AVX2 code | no gain: 512 and 16384 take as long for 16 x 4096 x 1024 | 2026-11-28
inline constexpr std::int64_t blocked_skinny_max_group_columns = 4096;
// The same for tiles of at most outer_product_rows rows: rows of 4096 columns and more are read faster than
// of 1024.
// columns | Zen 4 | 1/5 to 1/3 less time than with 1024 | 2026-11-23
inline constexpr std::int64_t outer_product_max_group_columns = 32768;
// The largest number of sums of such a group, which stay in L2.
// sums | Emerald Rapids | 14 % more time with 4096 for 4 x 28672 x 512 with an epilogue | 2026-11-28
inline constexpr std::int64_t outer_product_max_group_sums = 1 << 17;
// The number of lines between rows of sums in skinny groups. Stores a few lines ahead of the loads of B
// within a page of 4 KiB look like the sources of these loads and hold them up.
// lines | Zen 4 | 1/7 less time for four rows than with one line | 2026-11-23
inline constexpr std::int64_t skinny_sums_gap_lines = 16;

// --- The costs of what groups share (facts/choose_group.cpp, ops/matmul_config.cpp) ---

// Packing an element of A takes as long as multiplying it by this many columns, and packing one of B as long
// as multiplying it by this many rows: 1 + 14 / rows + 2 / columns follows the times that were measured.
// columns, rows | Zen 5 | 2048 cubed: 198, 216, 220 GFLOP/s for 128, 256, 512 rows | 2026-11-20
inline constexpr double packing_a_cost = 2, packing_b_cost = 14;
// The cost of A where it is packed as well, which takes as long as packing B: two threads divide products by
// rows.
// columns | Emerald Rapids | 2 threads, A transposed: 3 to 4 % less time for 512 and 1000 cubed | 2026-11-26
inline constexpr double packed_a_cost = packing_b_cost;
// The cost of A with AMX, which is packed as well.
// columns | Emerald Rapids | bf16 of 1024 cubed, 2 threads: 6 % more time with 600, none with 6 | 2026-11-28
inline constexpr double amx_packing_a_cost = 60;
// The cost of B with AMX: compared with its arithmetic, packing takes ten times as long.
// rows | Emerald Rapids | no gain: bf16 of 512 and 1024 cubed take as long, 2 threads | 2026-11-28
inline constexpr double amx_packing_b_cost = 140;
// The cost of starting a row of B in products of at most outer_product_rows rows.
// columns | Zen 4 | a row takes as long to start as 300 columns to read | 2026-11-23
inline constexpr double row_start_cost = 300;
// The cost of computing an element of an operand.
// columns | (Zen 4) | silu takes as long as 20 columns; no gain over 2 or 200 on Emerald Rapids | 2026-11-24
inline constexpr double computed_operand_cost = 60;
// The cost of storing a row of which another thread stores the next columns, whose lines the stores fetch:
// some 30 ns a row. Elements narrower than f32 are multiplied faster in proportion.
// multiplications of f32 | Granite Rapids | 1/5 less time for 512 cubed of i8 on two threads | 2026-11-25
inline constexpr double shared_row_cost = 3072;
// The same with AMX.
// multiplications of f32 | - | derived: AMX multiplies four times as fast as vectors | 2026-11-25
inline constexpr double amx_shared_row_cost = 4 * shared_row_cost;

} // namespace kiln::cpu::tuning
