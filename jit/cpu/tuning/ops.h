// Lists the tile sizes that ops use on a CPU where no tuned config is known; tuning.h explains the rows.
#pragma once

#include <cstdint>

namespace kiln::cpu::tuning {

// --- Softmax and norms (ops/detail/row_config.cpp) ---

// A row of up to this many bytes is one tile, because its second and third use still find it in the caches;
// longer rows are read again in parts, and softmax then computes its exponentials twice. Rows of 131072
// elements take 0.23 ns an element as one tile and 0.26 in parts from memory, and the same from the cache.
// bytes, bytes of a part | Zen 5 | 32768 elements in cache: 0.14 ns an element, in parts 0.19 | 2026-11-21
inline constexpr std::int64_t whole_row_bytes = 512 << 10, row_part_bytes = 16 << 10;
// The largest number of bytes and rows of a program whose rows are in the cache.
// bytes, rows | Zen 5 | 5 % less time than with single rows for rows of 1024 elements | 2026-11-21
inline constexpr std::int64_t cached_rows_bytes = 16 << 10, max_rows_of_program = 16;
// The same for rows from memory: rows are prefetched while the previous program computes, and programs with
// few rows keep both busy.
// bytes | Zen 5 | softmax of 1024 columns: 44 GB/s in place of 35 with 4 or 16 rows | 2026-11-21
inline constexpr std::int64_t rows_from_memory_bytes = 2 << 10;
// The largest number of bytes of a program that reads the rows of a transposed matrix that share cache lines,
// as tiles of whole rows and as parts of rows.
// bytes | Emerald Rapids | softmax of 16384 columns: 27 % less time as one tile than in parts | 2026-11-28
inline constexpr std::int64_t whole_transposed_bytes = 2 << 20, transposed_part_bytes = 128 << 10;
// Rows of at most max_narrow_columns elements are transposed in registers, if there are min_narrow_rows or
// more.
// elements, rows | - | derived: a vector of AVX-512 has 16 floats, and so many rows fill one | 2026-11-28
inline constexpr std::int64_t max_narrow_columns = 15, min_narrow_rows = 16;
// The largest number of elements of a program with such rows.
// elements | - | not measured: the tiles in scratch take half of an L1 of 32 KiB | 2026-11-28
inline constexpr std::int64_t narrow_rows_elements = 2048;

// --- Matrix products (ops/matmul_config.cpp) ---

// The rows and columns of a tile that are tried. Programs share the packing of B, so that larger tiles are
// not faster, but leave fewer ways to divide the product among threads.
// rows, columns | Emerald Rapids | no gain from 256 rows: 1000 cubed takes as long | 2026-11-28
inline constexpr std::int64_t matmul_tile_rows[] = {1, 2, 4, 8, 16, 32, 64, 96, 128};
inline constexpr std::int64_t matmul_tile_columns[] = {64, 128};
// A tile has at most as many rows as a thread's share of all rows, or this many if that is more.
// rows | Granite Rapids | measured with shared_row_cost: threads share no rows of a tile | 2026-11-25
inline constexpr std::int64_t matmul_min_share_rows = 64;
// The smallest and the largest K of a tile.
// elements of K | Emerald Rapids | no gain: 16 to 512 take as long for 1000 cubed | 2026-11-28
inline constexpr std::int64_t matmul_min_tile_k = 64, matmul_max_tile_k = 512;

// --- Products whose K is divided into parts (ops/split_matmul.cpp) ---

// The K of a part: an eighth of K within these limits.
// elements of K | Zen 4 | 64 x 64 x 65536, 2 threads: 4 to 15 % more time with 2048 | 2026-11-29
inline constexpr std::int64_t least_part_k = 4096, most_part_k = 8192;
// The rows and columns of the tiles of which there must be fewer than threads.
// rows, columns | Zen 4 | 64 x 64 x 65536, 2 threads: 3 to 12 % less time | 2026-11-29
inline constexpr std::int64_t undivided_tile = 128;

} // namespace kiln::cpu::tuning
