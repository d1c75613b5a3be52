// Lists every constant of jit/cpu whose value was tuned on particular CPUs, with what was measured.
//
// Above each constant stands a comment that says what it decides, and then one row of four columns:
//
//   unit | CPU that it was measured on | measured gain | date of the value
//
// "not recorded" stands where neither a comment nor the history of the tree has the information. "1000 cubed"
// is a product of matrices of 1000 x 1000; elements are f32 unless a row names another type. A new value
// changes the generated code: measure it on the CPU of its row as well, and write a new row.
// tests/lit/cpu/tuning.test checks that the rows are complete and that each name is used.
//
// Sizes that follow from an instruction set (rows of an AMX register), limits that protect the compiler (the
// depth of an expression) and formats are not tuned; they are defined where they are used.
#pragma once

#include <cstdint>

namespace kiln::cpu::tuning {

// --- Properties of CPUs that LLVM does not report ---

// The L2 of one core. CPUs with AMX have 2 MiB (Sapphire Rapids and later).
// bytes | Zen 4 | not tuned: the size that this CPU has | 2026-11-22
inline constexpr std::int64_t usual_l2_bytes = 1 << 20;
// bytes | Granite Rapids | not tuned: the size that this CPU has | 2026-11-22
inline constexpr std::int64_t amx_l2_bytes = 2 << 20;

// Whether data that has left L2 returns about as slowly as from memory, so that prefetched data must not
// displace data in use and must be read soon. That holds for Intel's CPUs with AVX-512 (SSE4a identifies
// AMD's). L3 gives 19 GB/s to a core of a Granite Rapids, memory 18.
// condition | Granite Rapids | norms and softmax of rows of 16 to 160 KiB: 20 to 25 % less time | 2026-11-25
constexpr bool l3_is_slow(bool avx512, bool sse4a) { return avx512 && !sse4a; }

// Whether lines of L2 arrive too late unless they are prefetched. Zen 5 reaches its peak without prefetching.
// condition | Granite Rapids | 6 to 7 % less time for a large f32 product | 2026-11-22
constexpr bool l2_is_slow(bool avx512, bool amd) { return avx512 && !amd; }

// Whether the hardware prefetcher fetches rows of B that lie pages apart early enough by itself.
// condition | Zen 3 | software prefetches take 1/3 more time for 1 row, 1/7 for 18 rows | 2026-11-26
constexpr bool hardware_prefetches_rows(bool avx2, bool avx512) { return avx2 && !avx512; }

// Registers per step of a vector loop that evaluates functions such as exp, on AVX2 without AVX-512. Zen 3's
// schedulers hold 64 floating-point operations, little more than one vector's exponential. AVX-512 is bound
// by arithmetic with one register already.
// registers | Zen 3 | 20 to 30 % less time for softmax and silu | 2026-11-21
inline constexpr int avx2_registers_per_step = 4;

// Whether LLVM reduces the strength of address computations on x86. Without it fewer pointers are live, and
// fewer are spilled; matmul, attention, norms, transpositions and sums stay within 2 %.
// condition | Zen 4 | off: 1/5 less time for softmax in cache, up to 1/4 less to compile | 2026-11-23
inline constexpr bool x86_strength_reduction = false;

// --- Which tiles live in memory (facts/plan.cpp), in additions per element ---

// The cost of a buffer: one store and one load of an element that L1 holds.
// additions | not recorded | not recorded | 2026-11-20
inline constexpr int buffer_cost = 4;
// The cost of exp, exp2 and sigmoid, the cheapest functions.
// additions | not recorded | not recorded | 2026-11-21
inline constexpr int function_cost = 12;
// The cost of logarithms, tanh, erf, gelu, pow and trigonometric functions.
// additions | not recorded | not recorded | 2026-11-20
inline constexpr int long_function_cost = 25;
// The cost of division, remainder and square roots.
// additions | not recorded | not recorded | 2026-11-20
inline constexpr int division_cost = 5;
// The cost of a load from computed places.
// additions | not recorded | not recorded | 2026-11-20
inline constexpr int gather_cost = 8;
// The cost of an operation on a float narrower than f32, with the rounding of its result.
// additions | not recorded | not recorded | 2026-11-20
inline constexpr int narrow_float_cost = 4;
// A tile gets a buffer if one element of a nest would evaluate more than this many elements of it.
// elements | not recorded | not recorded | 2026-11-22
inline constexpr std::int64_t max_repeats = 16;

// --- Sizes of tiles (rewrite/widen.cpp, rewrite/short_reductions.cpp) ---

// The largest number of elements of a widened tile.
// elements | Zen 3 | 27 GB/s in place of 3.6 for a copy of 4096 x 4096 in tiles of 32 x 32 | 2026-11-22
inline constexpr std::int64_t max_widened_elements = 16384;
// The largest number of columns of a widened tile.
// columns | Zen 3 | measured together with max_widened_elements | 2026-11-22
inline constexpr std::int64_t max_widened_columns = 4096;
// Tiles of fewer columns than this are widened.
// columns | Zen 3 | measured together with max_widened_elements | 2026-11-22
inline constexpr std::int64_t narrow_tile_columns = 512;
// The side of a tile whose two axes both lie along rows, as in a transposition.
// elements | Zen 3 | not recorded | 2026-11-22
inline constexpr std::int64_t transposed_tile_side = 64;
// The smallest and the largest number of columns per program of kernels with loops, such as sums of columns.
// columns | not recorded | 1/3.5 of the time for column sums of 32 x 32, 1/2.5 for layernorms | 2026-11-22
inline constexpr std::int64_t min_loop_columns = 64;
// columns | not recorded | measured together with min_loop_columns | 2026-11-22
inline constexpr std::int64_t max_loop_columns = 512;
// The number of columns that all threads together should have in such a kernel; it determines the number per
// program, within these limits.
// columns | not recorded | measured together with min_loop_columns | 2026-11-22
inline constexpr std::int64_t loop_columns_of_all_threads = 1024;
// The largest number of elements of a tile with a buffer in such a kernel, so that L1 holds it.
// elements | not recorded | not recorded | 2026-11-22
inline constexpr std::int64_t max_loop_buffer_elements = 4096;
// Reductions over at most this many neighbours become operations on halves of vectors.
// elements | not recorded | sums of groups 0.8 to 1.2 of memcpy in place of 0.2 to 0.4 | 2026-11-22
inline constexpr std::int64_t max_halved_group = 8;

// --- Vector loops (emit/) ---

// The number of accumulators of a reduction along rows, to hide the latency of the combining operation.
// accumulators | Zen 4 | argmax 0.17 ns an element in place of 0.29; AVX2 0.19 in place of 0.33 | 2026-11-23
inline constexpr int reduction_accumulators = 4;
// The number of registers of columns that a reduction down columns advances together, so that whole lines of
// a row are read before they leave the cache.
// registers | not recorded | column sums of 32 x 32 0.5 of memcpy in place of 0.25 | 2026-11-22
inline constexpr int column_registers = 4;
// The same where there is one running value and no function (functions spill with 8: 0.45 ns in place of
// 0.34).
// registers | Zen 4 | column sums of 1024 x 4096 0.10 ns an element in place of 0.145 | 2026-11-23
inline constexpr int single_value_column_registers = 8;
// Reductions of more running values than this advance one register at a time, so that a step fits the
// registers.
// values | not recorded | not recorded | 2026-11-22
inline constexpr int max_column_values = 2;

// The number of vectors of a deferred row that are stored between two iterations of the next program's loop:
// enough to hide the cost of the test, and few enough not to wait for memory.
// vectors | Zen 5 | softmax of 4096 x 4096 0.88 of copying in place of 0.78 | 2026-11-20
inline constexpr std::int64_t deferred_strip_vectors = 16;
// Rows of fewer columns than this are not deferred.
// columns | not recorded | not recorded | 2026-11-20
inline constexpr std::int64_t min_deferred_columns = 1024;

// Tiles of at least this many bytes are prefetched into L2, smaller ones into L1. Norms of shorter rows take
// 5 to 25 % less time without any prefetch, because the hardware prefetchers run on into the next row.
// bytes | Zen 4 | L2 against L1, softmax: 1/3 less time for 16 to 128 KiB, 1/3 more for 4 KiB | 2026-11-22
inline constexpr std::int64_t min_l2_prefetched_bytes = 8 << 10;
// All nests that read a tile prefetch the one below it, unless the tile is longer than this. With such
// prefetches, norms of rows of 512 KiB take up to 17 % more time.
// bytes | Zen 4 | 3 to 19 % less time for norms of rows of 8 to 128 KiB | 2026-11-26
inline constexpr std::int64_t max_bytes_prefetched_by_all_nests = 128 << 10;
// Where L3 is slow, nothing is prefetched for the next program once a program's tiles fill this part of L2.
// divisor of L2 | Granite Rapids | beyond it prefetching takes up to 40 % more time | 2026-11-25
inline constexpr std::int64_t program_share_of_l2 = 2;
// Only views of at least this many times the size of L2 are prefetched for the next program.
// L2s | Granite Rapids | 2 rows of 128 KiB take two threads 9 us in place of 22 | 2026-11-25
inline constexpr std::int64_t min_prefetched_view_l2s = 2;
// The distance at which a loop whose stores bypass the caches prefetches, where L3 is slow.
// bytes | Granite Rapids | gelu of 128 MiB 0.37 ns an element in place of 1.0 | 2026-11-25
inline constexpr std::int64_t streaming_prefetch_bytes = 4096;
// The shortest row for which it does so, unless the next row follows in memory.
// bytes | Granite Rapids | prefetching short rows that lie apart takes twice the time | 2026-11-25
inline constexpr std::int64_t min_streaming_row_bytes = 8 * streaming_prefetch_bytes;

// Vectors of fewer lanes than this are gathered instead of loaded transposed.
// lanes | not recorded | transposed loads: 1/5 of the time of gathers for 4096 x 4096 | 2026-11-22
inline constexpr int min_transposed_lanes = 4;
// The largest number of rows of a transposed load that are computed together; each row adds code of its own.
// rows | not recorded | not recorded | 2026-11-22
inline constexpr int max_transposed_rows = 16;
// The largest number of operations of all these rows, which bounds the time to compile.
// operations | not recorded | not recorded | 2026-11-22
inline constexpr int max_transposed_operations = 1000;
// The number of operations that a function such as exp counts as in this sum.
// operations | not recorded | not recorded | 2026-11-22
inline constexpr int transposed_function_operations = 25;

// Lanes at most this many elements apart are read as whole vectors and shuffled.
// elements | not recorded | pooling by two 0.6 of memcpy in place of 0.3, reversal 0.7, not 0.4 | 2026-11-22
inline constexpr std::int64_t max_shuffled_step = 4;
// Lanes whose distance is known at run time only are loaded one by one, this many from one pointer: more
// would be spilled.
// lanes | Zen 4 | every third float of 16 MiB 9 ns a vector in place of 45 with a gather | 2026-11-23
inline constexpr int lanes_per_pointer = 4;
// Rows of tiles of at least this many vectors have code of their own for the part past all views.
// vectors | not recorded | rows of 2100 in tiles of 4096 0.8 ns an element in place of 3.4 | 2026-11-22
inline constexpr int min_out_of_bounds_vectors = 16;
// The largest number of parts into which a reshape splits a vector, or from which it interleaves one.
// vectors | not recorded | rotary embedding of pairs 1.3 of memcpy in place of 0.14 | 2026-11-22
inline constexpr std::int64_t max_reshape_parts = 8;

// --- Products: skinny ones, which take as long as reading B (dot/few_rows.h) ---

// A product of at most this many rows of A is skinny.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t skinny_rows = 32;
// The largest number of rows of A for outer products, which read B in the order of memory.
// rows | Zen 5 | not recorded; beyond 8 rows, loads and stores of C take longer than reading B | 2026-11-21
inline constexpr std::int64_t outer_product_rows = 4;
// The same on CPUs with 16 registers, where B is packed for more rows.
// rows | Zen 3 | not recorded | 2026-11-21
inline constexpr std::int64_t blocked_outer_product_rows = 6;
// The largest number of rows of A for inner products, with columns of B in the order of memory.
// rows | not recorded | not recorded | 2026-11-22
inline constexpr std::int64_t inner_product_rows = 32;
// The same where AMX multiplies more rows.
// rows | Granite Rapids | not recorded | 2026-11-22
inline constexpr std::int64_t amx_inner_product_rows = 4;
// For a K shorter than this, inner products do not repay adding up the lanes.
// elements of K | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t min_inner_product_k = 64;

// The number of rows of B that an outer product takes at a time.
// rows of B | not recorded | not recorded | 2026-11-21
inline constexpr int outer_product_k = 8;
// The number of vectors of columns that it takes at a time.
// vectors | Zen 3 | one row with 16 registers: less time than with 4 | 2026-11-26
inline constexpr int outer_product_vectors = 2;
// The same for one row of A with 32 registers.
// vectors | Zen 4 | 2 to 4 % less time than with 2 for one row by 4096 x 28672 | 2026-11-26
inline constexpr int one_row_outer_product_vectors = 4;
// Outer products take columns in runs. This is the number of sums of a run in all rows, which L2 holds: each
// run starts to read as many lines as rows are taken, and memory is slow to follow. Runs of 4096 columns are
// 20 % faster than of 1024 (Zen 3).
// elements of C | Zen 3 | runs of 28672 columns 1/10 faster than runs of 8192 | 2026-11-23
inline constexpr std::int64_t outer_product_run = 32768;
// columns | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t min_outer_product_run = 1024;
// The distance at which B is prefetched into L2.
// bytes | Zen 4 | 15 to 25 % less time, 8 to 14 % for one row | 2026-11-22
inline constexpr std::int64_t skinny_prefetch_bytes = 1024;
// Columns of B are prefetched only if they fill more than this many times L2, and so lie in memory.
// L2s | Zen 4 | one row: 9 to 14 % less time from memory, 12 to 19 % more from L3 | 2026-11-24
inline constexpr std::int64_t min_prefetched_b_l2s = 16;
// The rows of A and columns of B whose inner products are added up together: 24 sums and 10 loads with 32
// registers, 12 and 7 with 16. Sums that do not fit cost a factor of two.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t inner_product_tile_rows = 4;
// columns | not recorded | not recorded | 2026-11-21
inline constexpr int inner_product_tile_columns = 6;
// columns, for one row | Zen 4 | 6 % less time than with 6 for one row by 4096 x 4096 | 2026-11-25
inline constexpr int one_row_inner_product_columns = 8;
// rows, with 16 registers | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t blocked_inner_product_rows = 3;
// columns, with 16 registers | not recorded | not recorded | 2026-11-21
inline constexpr int blocked_inner_product_columns = 4;

// K of a chunk where several register tiles of rows read B in place. Neighbouring rows of B lie pages apart,
// and L2 keeps little more than a hundred of such rows. B is prefetched half a chunk ahead.
// elements of K | Zen 4 | 1/10 to 1/3 less time than whole chunks for 18 and 32 rows | 2026-11-22
inline constexpr std::int64_t streamed_k_chunk = 96;
// elements of K, slow L2 | Granite Rapids | 1/2 the time of whole chunks for 18 and 32 rows | 2026-11-22
inline constexpr std::int64_t slow_l2_streamed_k_chunk = 48;
// K of a chunk where bytes are packed for at most outer_product_rows rows: L1 keeps a sliver.
// elements of K | Zen 4 | 1/5 to 1/3 less time for 1 to 4 rows | 2026-11-22
inline constexpr std::int64_t skinny_bytes_k_chunk = 96;

// --- Products: the register tile (dot/plan.cpp, dot/dot.cpp) ---

// Accumulators: vectors of a row, and rows. More than 28 spill; more than 8 rows lack address registers.
struct RegisterTile {
  int vectors;
  int rows;
};
// 32 registers, at least 4 vectors of columns.
// vectors x rows | AVX-512, model not recorded | 8 x 3 is 3 % slower | 2026-11-20
inline constexpr RegisterTile register_tile_32 = {4, 6};
// 32 registers, fewer vectors of columns.
// vectors x rows | AVX-512, model not recorded | not recorded | 2026-11-20
inline constexpr RegisterTile narrow_register_tile_32 = {3, 8};
// AVX2, at least 2 vectors of columns.
// vectors x rows | not recorded | not recorded | 2026-11-20
inline constexpr RegisterTile register_tile_16 = {2, 6};
// AVX2, one vector of columns.
// vectors x rows | not recorded | not recorded | 2026-11-20
inline constexpr RegisterTile narrow_register_tile_16 = {1, 8};
// Plain SSE.
// vectors x rows | not recorded | not recorded | 2026-11-20
inline constexpr RegisterTile sse_register_tile = {2, 4};
// Pairs of i16 without the x86 instruction for them; their halves take registers.
// vectors x rows | not recorded | not recorded | 2026-11-20
inline constexpr RegisterTile emulated_pairs_register_tile = {2, 6};
// Few rows take more vectors, to hide the latency of the multiply-add. The vectors for up to 2 rows with 32
// registers:
// vectors | not recorded | not recorded | 2026-11-20
inline constexpr int two_row_vectors_32 = 8;
// The vectors for up to 2 rows with 16 registers:
// vectors | not recorded | not recorded | 2026-11-20
inline constexpr int two_row_vectors_16 = 4;
// The vectors for up to 4 rows with 32 registers, if the product has that many vectors of columns:
// vectors | not recorded | not recorded | 2026-11-20
inline constexpr int four_row_vectors_32 = 6;
// The rows of the tile that ends a block whose rows are not a multiple of 6.
// rows | Zen 3 | measured together with block_bytes | 2026-11-21
inline constexpr int short_tile_rows = 4;
// The rows of a tile of 3 vectors, which uses as many registers as 6 rows of 4 vectors.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr int three_vector_tile_rows = 8;
// The rows of a tile of one vector, for the last columns: enough sums to hide the latency of the
// multiply-add.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t one_vector_tile_rows = 8;

// The unroll factor of the microkernel's loop over K. With 16 registers, and where another thread shares the
// core, steps compete for issue slots; alone on a core, 8 steps take 2 to 3 % less time than one.
// steps | Zen 3, busy | 1/4 less time than with 1 for 512 cubed, 1/10 less than with 4 | 2026-11-26
inline constexpr int blocked_unrolled_k = 8;
// The unroll factor where each step also prefetches rows of a sliver. 8 saves no more time than 4.
// steps | Emerald Rapids | 2 to 3 % less time | 2026-11-26
inline constexpr int slow_l2_unrolled_k = 4;
// The unroll factor of AVX2's sums of pairs of i16, which need one register more and spill in longer
// iterations.
// steps | not recorded | no spilled register | 2026-11-26
inline constexpr int avx2_pairs_unrolled_k = 2;
// The number of rows of a packed sliver that are prefetched into L1, where L2 is slow.
// rows of K | Granite Rapids | 6 to 7 % less time for a large f32 product | 2026-11-22
inline constexpr std::int64_t sliver_prefetch_rows = 8;

// --- Products: chunks (dot/plan.cpp) ---

// With 32 registers, A passes over slivers of B that stay in L2. This is K of a chunk: 512 KiB of packed B
// fit into 1 MiB, and C is read again as rarely as possible.
// elements of K | not recorded | 3 % less time than 512 at 1000 cubed | 2026-11-21
inline constexpr std::int64_t l2_k_chunk = 1024;
// The number of rows of A that are packed at a time.
// rows | Zen 4 | 5 % less time than 960 x 256 in L2 at 2048 cubed with A transposed | 2026-11-23
inline constexpr std::int64_t l2_m_chunk = 1056;
// The number of slivers of B that are packed at a time: 128 columns. 4 are 1 to 3 % quicker with an L2 of 2
// MiB alone on a core, and 1 to 5 % slower where another thread shares it (Granite and Emerald Rapids).
// slivers | not recorded | 1 and 4 slivers take 3 % more time at 2048 x 2048 | 2026-11-26
inline constexpr std::int64_t l2_slivers = 2;
// The number of rows of A that stay in L2 while slivers pass over them, where L2 is slow.
// rows | Granite Rapids | part of 2048 cubed from 114 to 105 ms | 2026-11-23
inline constexpr std::int64_t slow_l2_rows = 96;

// With 16 registers, blocks of rows of A stay in L2 while slivers of B pass over them (CPUs with 512 KiB of
// L2). This is K of a chunk. Sums depend on chunks, so nothing that differs between tiles may choose them.
// elements of K | Zen 3 | 3 to 5 % less time than 256 for 512 to 2048 cubed | 2026-11-26
inline constexpr std::int64_t blocked_k_chunk = 512;
// elements of K, skinny products | Zen 3 | 3 % less time than 512 | 2026-11-26
inline constexpr std::int64_t blocked_skinny_k_chunk = 256;
// The size of a block of A: a fifth of L2.
// bytes | Zen 3 | blocking: 0.95 to 1.08 of OpenBLAS in place of 0.4 to 0.77 | 2026-11-26
inline constexpr std::int64_t block_bytes = 96 << 10;
// The number of columns of B that are packed at a time.
// columns | Zen 3 | measured together with block_bytes | 2026-11-21
inline constexpr std::int64_t blocked_columns = 1024;

// AMX multiplies so fast that loads count: 32 rows of A of this many bytes stay in L1 while columns pass.
// Rows twice as long take 2 to 10 % more time.
// bytes of K | Emerald Rapids | 512 bytes take 9 to 17 % more time | 2026-11-26
inline constexpr std::int64_t amx_k_chunk_bytes = 1024;
// The same for skinny products, which read B from memory in longer rows.
// bytes of K | not recorded | not recorded | 2026-11-24
inline constexpr std::int64_t amx_skinny_k_chunk_bytes = 512;
// The number of columns of B that are packed at a time with AMX: half of an L2 of 2 MiB.
// columns | Granite Rapids | 10 to 14 % less time for bf16 of 1024 to 4096 cubed, with packed A | 2026-11-24
inline constexpr std::int64_t amx_columns = 1024;
// The same in skinny products.
// columns | not recorded | not recorded | 2026-11-24
inline constexpr std::int64_t amx_skinny_columns = 2048;
// The smallest number of rows that AMX multiplies; for fewer rows, reading B in place is as quick.
// rows | Granite Rapids | not recorded | 2026-11-22
inline constexpr std::int64_t min_amx_rows = 5;
// The smallest number of vectors of columns that AMX multiplies.
// vectors | Granite Rapids | not recorded | 2026-11-22
inline constexpr std::int64_t min_amx_vectors = 2;
// The number of following rows of A that are prefetched into L2 for each 32 columns: 512 columns prefetch all
// 32 rows.
// rows | Granite Rapids | 5 to 8 % less time | 2026-11-24
inline constexpr std::int64_t amx_prefetch_rows = 2;
// A is packed for at least this many columns, unless K is one chunk, for which reading A in place is 1/10
// faster.
// columns | Granite Rapids | bf16 of 2048 cubed 16.5 ms in place of 19.7 | 2026-11-22
inline constexpr std::int64_t amx_min_packed_a_columns = 512;

// The number of elements by which rows of packed A are longer than needed, which keeps rows of a chunk out of
// the same sets of the cache; then the same for rows of A as accumulator elements (skinny products).
// elements | not recorded | not recorded | 2026-11-20
inline constexpr std::int64_t packed_a_row_padding = 32;
// elements | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t wide_a_row_padding = 16;

// --- Products: packing, and reading in place (dot/operands.cpp, dot/pack.cpp) ---

// B is read in place if its rows span at most this many bytes, so that they stay in the cache.
// bytes | not recorded | 1 MiB makes rows a power of two apart share sets | 2026-11-20
inline constexpr std::int64_t max_in_place_b_bytes = 1 << 19;
// The same with 16 registers.
// bytes | Zen 3 | not recorded | 2026-11-21
inline constexpr std::int64_t blocked_max_in_place_b_bytes = 1 << 16;
// The number of rows of B that are packed at a time for all slivers of a group: rows of a large matrix are
// pages apart.
// rows | not recorded | 128 x 256 x 512 tiles of 2048 cubed 0.87 of OpenBLAS in place of 0.74 | 2026-11-20
inline constexpr std::int64_t packed_rows = 32;
// The same for slivers one line wide: more rows would be more streams than the hardware prefetches.
// rows | Zen 3 | 1/10 less time at 64 x 4096 x 4096 | 2026-11-21
inline constexpr std::int64_t blocked_packed_rows = 8;
// With 16 registers, blocks of A are packed unless neighbouring rows are at most this far apart. Rows that
// are pages apart, above all a little less or more than a power of two, would share a few sets of L2.
// bytes | Zen 3 | 10 to 25 % less time | 2026-11-21
inline constexpr std::int64_t max_in_place_a_row_bytes = 2048;
// Fewer columns than this do not repay packing A.
// columns | Zen 3 | not recorded | 2026-11-21
inline constexpr std::int64_t min_packed_a_columns = 128;
// The distance at which packing prefetches rows into L2, where the hardware does not. Compared with
// prefetching into L1, 32 rows of i8 take 1/10 less time, and 128 rows 3 to 6 % less.
// rows | Zen 4 | 1/4 to 1/3 less time for 1 row of i8 | 2026-11-22
inline constexpr int pack_prefetch_rows = 16;
// rows, where rows are grouped | Zen 4 | measured together with pack_prefetch_rows | 2026-11-22
inline constexpr int pack_prefetch_grouped_rows = 32;
// The distance at which packing prefetches contiguous columns, of which it reads sixteen at once.
// bytes | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t pack_prefetch_column_bytes = 512;
// The number of vectors of a contiguous row that are packed together.
// vectors | not recorded | not recorded | 2026-11-21
inline constexpr int packed_vectors = 4;
// The unroll factor of packing rows that are exactly as long as a sliver.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr int pack_unroll = 4;

// --- Products that programs share (facts/grouped_product.cpp, facts/choose_group.cpp) ---

// The number of steps of K that are gathered in scratch at a time where operands are computed.
// elements of K | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t gathered_k = 512;

// The largest number of rows of a group: packing B is amortised over them.
// rows | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t max_group_rows = 1024;
// The largest number of columns of a group: 128 packed columns of B, and sums that an epilogue reads, take
// about 1 MiB or less.
// columns | not recorded | fewer rows take 2 % more time | 2026-11-21
inline constexpr std::int64_t max_group_columns = 128;
// columns, with an L2 of 2 MiB | Granite Rapids | not recorded | 2026-11-22
inline constexpr std::int64_t large_l2_max_group_columns = 256;
// The same where A is packed too: each of its elements is packed for all columns of the group.
// columns | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t packed_a_max_group_columns = 1024;
// The same with 16 registers and an epilogue: 1 MiB of sums.
// columns | Zen 3 | measured together with block_bytes | 2026-11-21
inline constexpr std::int64_t blocked_epilogue_max_group_columns = 512;
// elements | Zen 3 | measured together with block_bytes | 2026-11-21
inline constexpr std::int64_t blocked_epilogue_max_group_sums = 1 << 18;
// The same with AMX.
// rows | Granite Rapids | measured together with amx_columns | 2026-11-24
inline constexpr std::int64_t amx_max_group_rows = 2048;
// columns | Granite Rapids | measured together with amx_columns | 2026-11-24
inline constexpr std::int64_t amx_max_group_columns = 1024;
// The same for skinny tiles, which mostly belong to skinny matrices, whose B is best read in long rows.
// columns | not recorded | not recorded | 2026-11-21
inline constexpr std::int64_t skinny_max_group_columns = 1024;
// columns, with 16 registers | Zen 3 | not recorded | 2026-11-23
inline constexpr std::int64_t blocked_skinny_max_group_columns = 4096;
// The same for tiles of at most outer_product_rows rows: rows of 4096 columns and more are read faster than
// of 1024.
// columns | Zen 4 | 1/5 to 1/3 faster | 2026-11-23
inline constexpr std::int64_t outer_product_max_group_columns = 32768;
// The largest number of sums of such a group, which stay in L2.
// elements | not recorded | not recorded | 2026-11-23
inline constexpr std::int64_t outer_product_max_group_sums = 1 << 17;
// The largest size of computed operands per chunk of K. Operands of B are read again for each register tile of
// rows.
// bytes of A | not recorded | 384 cubed with silu(A), tiles of 8 x 8: 1.1, not 18 times as long | 2026-11-24
inline constexpr std::int64_t max_gathered_a_bytes = 1 << 20;
// bytes of B | not recorded | measured together with max_gathered_a_bytes | 2026-11-24
inline constexpr std::int64_t max_gathered_b_bytes = 1 << 18;

// The costs of what groups share (choose_group.cpp). Packing an element of A takes as long as multiplying it
// by this many columns, and packing one of B as long as multiplying it by this many rows; 1 + 14 / rows + 2 /
// columns follows the times that were measured.
// columns | AVX-512, model not recorded | fitted to tiles of 64 to 512 rows of 2048 cubed | 2026-11-22
inline constexpr double packing_a_cost = 2;
// rows | AVX-512, model not recorded | fitted to tiles of 64 to 512 rows of 2048 cubed | 2026-11-22
inline constexpr double packing_b_cost = 14;
// The same for A where it is packed as well, which takes as long as packing B: two threads divide products by
// rows.
// columns | Emerald Rapids | 3 to 4 % less time for 512 and 1000 cubed with A transposed | 2026-11-26
inline constexpr double packed_a_cost = 14;
// The same with AMX: compared with its arithmetic, packing takes ten times as long.
// columns | Granite Rapids | measured together with amx_columns | 2026-11-24
inline constexpr double amx_packing_a_cost = 60;
// rows | Granite Rapids | measured together with amx_min_packed_a_columns | 2026-11-22
inline constexpr double amx_packing_b_cost = 140;
// The cost of starting a row of B in products of at most outer_product_rows rows.
// columns | Zen 4 | measured: a row takes as long to start as 300 columns to read | 2026-11-23
inline constexpr double row_start_cost = 300;
// The cost of computing an element of an operand. silu takes as long as 20 columns.
// columns | not recorded | not recorded | 2026-11-24
inline constexpr double computed_operand_cost = 60;
// The cost of storing a row of which another thread stores the next columns, whose lines the stores fetch:
// some 30 ns a row. Elements narrower than f32 are multiplied faster in proportion.
// multiplications of f32 | Granite Rapids | 1/5 less time for 512 cubed of i8 on two threads | 2026-11-25
inline constexpr double shared_row_cost = 3072;
// AMX multiplies four times as fast as vectors.
// multiplications of f32 | Granite Rapids | measured together with shared_row_cost | 2026-11-25
inline constexpr double amx_shared_row_cost = 4 * shared_row_cost;
// The number of lines between rows of sums in skinny groups. Stores a few lines ahead of the loads of B
// within a page of 4 KiB look like the sources of these loads and hold them up.
// lines | Zen 4 | 1/7 less time for four rows than with one line | 2026-11-23
inline constexpr std::int64_t skinny_sums_gap_lines = 16;

} // namespace kiln::cpu::tuning
