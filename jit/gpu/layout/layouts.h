// Makers of the layouts that hardware and coalesced memory access ask for.
//
// All of them are values of LinearLayout. Those of values in registers have the input sides register, lane
// (5 bits) and warp and the output sides dim0 .. dim{rank-1}; registers count elements, not 32-bit words.
// Those of shared memory have the input side offset, in elements. Extents are powers of two and are given by
// their logarithms ("bits"): a 64 x 16 tile has shape_bits {6, 4}.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <string>
#include <vector>

namespace kiln::gpu {

inline constexpr int lane_bits = 5; // 32 lanes in a warp

// Coalesced access: registers first take 2^vector_bits elements along the fastest axis `order[0]`, then lanes
// fill that axis as far as it goes and then the next ones, then warps do, and further registers repeat the
// whole. `order` lists all axes, the fastest first. Where the tile is smaller than the threads, the surplus
// lane and warp bits map to zero: those threads hold copies.
//
//     blocked({3, 6}, {1, 0}, 2, 2)     8 x 64, four elements a thread, 4 warps:
//                                       register -> (0,1) (0,2)   lane -> (0,4) (0,8) (0,16) (0,32) (1,0)
//                                       warp -> (2,0) (4,0)
LinearLayout blocked(const std::vector<int>& shape_bits, const std::vector<int>& order, int vector_bits,
                     int warp_bits);

// What a reduction along `axis` leaves: the axis is removed and higher axes move down. Register bits that
// reach nothing which earlier ones do not are dropped, so that registers are numbered without holes; lanes
// and warps stay, and those along the axis hold copies.
LinearLayout sliced(const LinearLayout& layout, int axis);
// The register bits of `layout` that sliced(layout, axis) keeps, least significant first.
std::vector<int> kept_register_bits(const LinearLayout& layout, int axis);
// A new axis of extent 1 before the present axis `axis`, or after the last one.
LinearLayout expanded(const LinearLayout& layout, int axis);

// One warp's fragment of mma.sync.m16n8kK, where K is 32 bytes: k16 for 16-bit, k8 for tf32 and k32 for 8-bit
// operands. The PTX ISA, "Matrix fragments for mma.m16n8k16" and its neighbours, with g = lane / 4 and
// t = lane % 4:
//     accumulator (16 x 8)    c[2i + j]: row g + 8i, column 2t + j
//     operand 0, A (16 x K)   word a[2j + i]: row g + 8i; 32-bit words of row: t + 4j
//     operand 1, B (K x 8)    word b[j]: 32-bit words of column: t + 4j; column g
LinearLayout mma_accumulator_fragment();
LinearLayout mma_operand_fragment(int operand, int element_bits);

// An accumulator of 2^m_bits x 2^n_bits (at least 16 x 8) by 2^warps_m_bits x 2^warps_n_bits warps, each with
// a contiguous part of the tile; warps count along m first. In a warp, fragments repeat along n first. Warps
// beyond the tile hold copies.
LinearLayout mma_accumulator(int m_bits, int n_bits, int warps_m_bits, int warps_n_bits);

// The operand (0: A, m x k; 1: B, k x n) of 2^k_bits along k that goes with an accumulator, which may be any
// layout that is the accumulator fragment times something. Every warp holds what its fragments need:
// fragments repeat along k last, and warps beside each other hold copies.
LinearLayout mma_operand(int operand, const LinearLayout& accumulator, int k_bits, int element_bits);

// Shared memory, offset -> tile: the last axis is contiguous.
LinearLayout row_major_shared(const std::vector<int>& shape_bits);

// Shared memory, offset -> tile, for ldmatrix and stmatrix: row-major, with the 16-byte chunks of each 128
// bytes exchanged so that any 8 rows' chunks of one column lie in different banks: chunk ^= row % 8. Rows
// shorter than 128 bytes share them, and fewer chunk bits are exchanged: with 64-byte rows, chunk ^= row / 2
// % 4. Up to 128 bytes a row this is TMA's and wgmma's swizzle (bits 4..6 of the address ^= bits 7..9); for
// wider tiles those want panels, swizzled_shared({rows, log2(128 / element_bytes)}, element_bytes) times
// identity(n, in_offset, "dim1"). A rank of 1 has nothing to exchange.
LinearLayout swizzled_shared(const std::vector<int>& shape_bits, int element_bytes);

// How many consecutive registers walk along memory when the tile is read from an array whose axis `fast_axis`
// is contiguous: the widest vector, in elements, that a load or store of this layout may use. A vector does
// not go on to the next row, whose address only the array knows.
int vector_elements(const LinearLayout& layout, int fast_axis);

// The places that hold copies: an element is stored exactly once if only places with none of these bits set
// store it.
struct Copies {
  std::uint64_t registers = 0, lanes = 0, warps = 0;
  bool operator==(const Copies&) const = default;
};
Copies copies(const LinearLayout& layout);

// Where each element of a tile is, for people: a grid of the tile's last two axes (the others held at 0) with
// cells such as `w0 l5 r0-3` (warp 0, lane 5, registers 0 to 3 with four elements along the row) or `o16-23`.
// A grid of more than 16 x 8 cells is cut, as `...` shows. Of an element's copies the first is named.
std::string picture(const LinearLayout& layout);

} // namespace kiln::gpu
