// Lists tuned constants of everything but matrix products; tuning.h explains the rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::cpu::tuning {

// --- Which tiles live in memory (facts/plan.cpp), in additions per element ---
//
// The measurements here are of f(x) - sum(f(x)) on rows of 4096 elements, where f(x) is used twice.

// The cost of a buffer: one store and one load of an element that L1 holds. Cheaper tiles are computed again.
// additions | Emerald Rapids | 52 % more time with 8 for 1 / (x + 3), 28 % with 16 for exp(x) | 2026-11-28
inline constexpr int buffer_cost = 4;
// The cost of exp, exp2 and sigmoid, the cheapest functions.
// additions | - | derived: exp takes 12 instructions with AVX-512 | 2026-11-20
inline constexpr int function_cost = 12;
// The cost of logarithms, tanh, erf, gelu, pow and trigonometric functions.
// additions | Emerald Rapids | 70 % more time for tanh(x) without a buffer | 2026-11-28
inline constexpr int long_function_cost = 25;
// The cost of division, remainder and square roots.
// additions | Emerald Rapids | 55 % more time with 1 for 1 / (x + 3) | 2026-11-28
inline constexpr int division_cost = 5;
// The cost of a load from computed places.
// additions | Emerald Rapids | 49 % more time with 1 for elements that an index names | 2026-11-28
inline constexpr int gather_cost = 8;
// The cost of an operation on a float narrower than f32, with the rounding of its result.
// additions | Emerald Rapids | 9 % more time with 1 for 2 x in f16 | 2026-11-28
inline constexpr int narrow_float_cost = 4;
// A tile gets a buffer if one element of a nest would evaluate more than this many elements of it.
// elements | - | not measured: filling a buffer once costs less than so many evaluations | 2026-11-22
inline constexpr std::int64_t max_repeats = 16;

// --- Sizes of tiles (rewrite/widen.cpp, rewrite/short_reductions.cpp) ---

// The largest number of elements of a widened tile.
// elements | Zen 3 | 27 GB/s in place of 3.6 for a copy of 4096 x 4096 in tiles of 32 x 32 | 2026-11-22
inline constexpr std::int64_t max_widened_elements = 16384;
// The largest number of columns of a widened tile.
// columns | Emerald Rapids | copy of 512 x 16384: 3 to 4 % more time with 256, 9 with 1024 | 2026-11-28
inline constexpr std::int64_t max_widened_columns = 4096;
// Tiles of fewer columns than this are widened.
// columns | Emerald Rapids | 15 % more time with 64 for a copy of 16 MiB in tiles of 32 x 64 | 2026-11-28
inline constexpr std::int64_t narrow_tile_columns = 512;
// The side of a tile whose two axes both lie along rows, as in a transposition.
// elements | Emerald Rapids | no gain: tiles of 16 x 16 of 2048 x 2048 take as long | 2026-11-28
inline constexpr std::int64_t transposed_tile_side = 64;
// The smallest and the largest number of columns per program of kernels with loops, such as sums of columns,
// and the number that all threads together should have, which determines the number within these limits.
// columns | (Zen 3) | 1/3.5 of the time for column sums of 32 x 32; no gain on Emerald Rapids | 2026-11-22
inline constexpr std::int64_t min_loop_columns = 64, max_loop_columns = 512;
inline constexpr std::int64_t loop_columns_of_all_threads = 1024;
// The largest number of elements of a tile with a buffer in such a kernel.
// elements | - | not measured: 16 KiB of f32 are half of an L1 of 32 KiB | 2026-11-22
inline constexpr std::int64_t max_loop_buffer_elements = 4096;
// Reductions over at most this many neighbours become operations on halves of vectors.
// elements | Emerald Rapids | sums of 2, 4, 8: 16, 12, 7 times the time with 1; 16: 1/5 with 16 | 2026-11-28
inline constexpr std::int64_t max_halved_group = 8;

// --- Vector loops (emit/) ---

// The number of accumulators of a reduction along rows, to hide the latency of the combining operation.
// accumulators | Zen 4 | argmax 0.17 ns an element in place of 0.29; AVX2 0.19 in place of 0.33 | 2026-11-23
inline constexpr int reduction_accumulators = 4;
// The number of registers of columns that a reduction down columns advances together, so that whole lines of
// a row are read before they leave the cache.
// registers | Emerald Rapids | 15 % more time with 1 for sums of exp, 81 % for argmax | 2026-11-28
inline constexpr int column_registers = 4;
// The same where there is one running value and no function (functions spill with 8: 0.45 ns in place of
// 0.34).
// registers | Zen 4 | column sums of 1024 x 4096 0.10 ns an element in place of 0.145 | 2026-11-23
inline constexpr int single_value_column_registers = 8;
// Reductions of more running values than this advance one register at a time, so that a step fits the
// registers.
// values | Emerald Rapids | argmax: 81 % more time with 1; 3 sums: 21 % less with 3 | 2026-11-28
inline constexpr int max_column_values = 2;

// The number of vectors of a deferred row that are stored between two iterations of the next program's loop:
// enough to hide the cost of the test, and few enough not to wait for memory.
// vectors | Zen 5 | softmax of 4096 x 4096 0.88 of copying in place of 0.78, on two threads | 2026-11-20
inline constexpr std::int64_t deferred_strip_vectors = 16;
// Rows of fewer columns than this are not deferred.
// columns | Emerald Rapids | softmax of 1024 columns: 5 to 7 % more time without | 2026-11-28
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
// lanes | Emerald Rapids | 58 % more time with gathers of 16 lanes to transpose 1024 x 1024 | 2026-11-28
inline constexpr int min_transposed_lanes = 4;
// The largest number of rows that are transposed together; each row adds code of its own.
// rows | Emerald Rapids | 17 % more time with 8 for a transposition of 1024 x 1024, 32 % with 4 | 2026-11-28
inline constexpr int max_transposed_rows = 16;
// The distance at which transposed loads prefetch their next lines, each of which is on a page of its own.
// vectors | - | not measured: enough lines to keep L2 waiting for memory | 2026-11-28
inline constexpr int transposed_prefetch_vectors = 4;
// Narrow rows of at most so many elements that follow one another are loaded and stored as whole vectors.
// Wider ones take fewer shuffles if each row is loaded by itself.
// elements | - | derived: n (n - 1) shuffles of two vectors compared with n log2(n) and n loads | 2026-11-28
inline constexpr int max_interleaved_columns = 8;
// The same without AVX-512, where a shuffle of two vectors takes three instructions.
// elements | - | derived: three times the instructions of max_interleaved_columns | 2026-11-28
inline constexpr int avx2_max_interleaved_columns = 4;

// Lanes at most this many elements apart are read as whole vectors and shuffled.
// elements | Emerald Rapids | sums of pairs: 45 % more time with 1; step of 3: 17 % with 2 | 2026-11-28
inline constexpr std::int64_t max_shuffled_step = 4;
// Lanes whose distance is known at run time only are loaded one by one, this many from one pointer: more
// would be spilled.
// lanes | Zen 4 | every third float of 16 MiB 9 ns a vector in place of 45 with a gather | 2026-11-23
inline constexpr int lanes_per_pointer = 4;
// Rows of tiles of at least this many vectors have code of their own for the part past all views.
// vectors | Emerald Rapids | 2100 columns in tiles of 4096: 42 % less time; 200 in 256: 56 more | 2026-11-28
inline constexpr int min_out_of_bounds_vectors = 16;
// Operations of one kind in a kernel that are inlined; if there are more, long ones become calls.
// operations | Emerald Rapids | 80 sines compile in 0.03 s as calls, and in 1.8 s inlined | 2026-11-28
inline constexpr int max_inlined_operations = 8;
// The size of a long operation.
// LLVM instructions | - | not measured: a call saves all vector registers, so it must do more | 2026-11-28
inline constexpr std::size_t min_shared_instructions = 24;
// The largest code of shorter operations of one kind that are inlined.
// LLVM instructions | Emerald Rapids | 1000 sums of bf16 compile in 0.3 s in place of 4.0 | 2026-11-28
inline constexpr std::size_t max_inlined_instructions = 2000;
// The largest number of parts into which a reshape splits a vector, or from which it interleaves one.
// vectors | Emerald Rapids | 2.3 times the time with 1 for rotary embedding of pairs | 2026-11-28
inline constexpr std::int64_t max_reshape_parts = 8;
// The longest row of a buffer whose rows are filled in one loop, if a vector is at least twice as long.
// elements | Emerald Rapids | FFT of 1024: 4 ns an element, 96 with rows one by one | 2026-11-28
inline constexpr std::int64_t max_flattened_row = 4;
// The largest array to which a thread adds in a copy of its own.
// bytes | Emerald Rapids | 4096 bins: 1 ns an element, 7 to 10 with atomics | 2026-11-28
inline constexpr std::int64_t max_summed_array_bytes = 256 << 10;
// How many elements of the copy are cleared and added to the array in the time of one atomic sum.
// elements | - | derived: two accesses and a branch, and 20 cycles | 2026-11-28
inline constexpr std::int64_t sums_per_copied_element = 4;
// A topk sorts chunks of as many elements as it keeps if a line has at least this many of them.
// chunks | Emerald Rapids | 8 of 8192 floats 0.8 ns an element in place of 8.1 with whole sorts | 2026-11-28
inline constexpr std::int64_t min_chunks_of_topk = 4;

// The largest kernel that is compiled as one function.
// LLVM instructions | Emerald Rapids | 200 stores compile in 1.6 s, as one function in 8.6 s | 2026-11-28
inline constexpr std::size_t max_whole_instructions = 6000;
// The smallest part of a larger kernel that becomes a function.
// LLVM instructions | - | not measured: so many take far longer than a call and its arguments | 2026-11-28
inline constexpr std::size_t min_outlined_instructions = 1500;

} // namespace kiln::cpu::tuning
