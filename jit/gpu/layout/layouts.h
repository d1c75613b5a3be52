// Constructs the layouts that hardware and coalesced memory accesses require.
//
// All of them are of type LinearLayout. Layouts of tiles in registers have the input dimensions register,
// lane (5 bits) and warp, and the output dimensions dim0 .. dim{rank-1}; a register holds one element, not a
// 32-bit word. Layouts of shared memory have the input dimension offset, counted in elements. Extents are
// powers of two and are given by their logarithms ("bits"): a 64 x 16 tile has shape_bits {6, 4}.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <string>
#include <vector>

namespace kiln::gpu {

inline constexpr int lane_bits = 5; // 32 lanes in a warp

// The layout of coalesced accesses. The registers of a lane first take 2^vector_bits elements along the
// fastest axis, `order[0]`; lanes fill that axis as far as it goes, and then the next axes; warps continue
// where lanes end; further registers repeat the whole. `order` lists all axes, the fastest first. If the tile
// has fewer elements than there are threads, surplus lane and warp bits map to zero: those threads hold
// copies.
//
//     blocked({3, 6}, {1, 0}, 2, 2)     8 x 64, four elements a thread, 4 warps:
//                                       register -> (0,1) (0,2)   lane -> (0,4) (0,8) (0,16) (0,32) (1,0)
//                                       warp -> (2,0) (4,0)
LinearLayout blocked(const std::vector<int>& shape_bits, const std::vector<int>& order, int vector_bits,
                     int warp_bits);

// The layout of what a reduction along `axis` leaves: the axis is removed, and the numbers of higher axes go
// down by one. Register bits that become redundant are dropped, so that registers are numbered without gaps.
// Lane and warp bits stay, and lanes and warps along the axis hold copies.
LinearLayout sliced(const LinearLayout& layout, int axis);
// The register bits of `layout` that sliced(layout, axis) keeps, least significant first.
std::vector<int> kept_register_bits(const LinearLayout& layout, int axis);
// Inserts an axis of extent 1 before the present axis `axis`, or after the last one.
LinearLayout expanded(const LinearLayout& layout, int axis);

// The fragments of one warp in mma.sync.m16n8kK, where K is 32 bytes: k16 for 16-bit operands, k8 for tf32,
// and k32 for 8-bit operands. They are as in the PTX ISA, "Matrix fragments for mma.m16n8k16" and the
// sections next to it, with g = lane / 4 and t = lane % 4:
//     accumulator (16 x 8)    c[2i + j]: row g + 8i, column 2t + j
//     operand 0, A (16 x K)   word a[2j + i]: row g + 8i; 32-bit words of row: t + 4j
//     operand 1, B (K x 8)    word b[j]: 32-bit words of column: t + 4j; column g
LinearLayout mma_accumulator_fragment();
LinearLayout mma_operand_fragment(int operand, int element_bits);

// An accumulator of 2^m_bits x 2^n_bits elements (at least 16 x 8) on 2^warps_m_bits x 2^warps_n_bits warps.
// Each warp has a contiguous part of the tile, and warps are numbered along m first. Inside a warp, fragments
// repeat along n first. Warps for which the tile has no fragment left hold copies.
LinearLayout mma_accumulator(int m_bits, int n_bits, int warps_m_bits, int warps_n_bits);

// The operand (0: A, m x k; 1: B, k x n), of 2^k_bits elements along k, that goes with an accumulator. The
// accumulator may be any layout that is the accumulator fragment times something. Every warp holds what its
// fragments need, so warps that share rows (for A) or columns (for B) hold copies. Fragments repeat along k
// last.
LinearLayout mma_operand(int operand, const LinearLayout& accumulator, int k_bits, int element_bits);

// Shared memory (offset -> element) in row-major order: the last axis is contiguous.
LinearLayout row_major_shared(const std::vector<int>& shape_bits);

// Shared memory (offset -> element) for ldmatrix and stmatrix: row-major, with the 16-byte chunks of each 128
// bytes permuted so that the chunks of one column lie in different banks in any 8 neighbouring rows: chunk ^=
// row % 8. If rows are shorter than 128 bytes, several share 128 bytes, and fewer bits of the chunk number
// change: with 64-byte rows, chunk ^= row / 2 % 4. For rows of up to 128 bytes this is the swizzle of TMA and
// wgmma (bits 4..6 of the address ^= bits 7..9); for wider tiles these require panels: swizzled_shared({rows,
// log2(128 / element_bytes)}, element_bytes) * identity(n, in_offset, "dim1"). A tile of rank 1 is not
// permuted.
LinearLayout swizzled_shared(const std::vector<int>& shape_bits, int element_bytes);

// The widest vector, in elements, that a load or store in this layout may use if the axis `fast_axis` is
// contiguous in memory: the number of consecutive registers that hold consecutive elements. A vector never
// continues in the next row, because only the array knows where that row starts.
int vector_elements(const LinearLayout& layout, int fast_axis);

// The redundant bits of each dimension. If only places with none of these bits set store their element, each
// element is stored exactly once.
struct Copies {
  std::uint64_t registers = 0, lanes = 0, warps = 0;
  bool operator==(const Copies&) const = default;
};
Copies copies(const LinearLayout& layout);

// Draws where the elements of a tile are: a grid of the last two axes (others are held at 0) with cells such
// as `w0 l5 r0-3` (warp 0, lane 5, and registers 0 to 3 for four elements along the row) or `o16-23`
// (offsets). A grid of more than 16 x 8 cells is cut, which `...` shows. If an element has copies, the first
// place is shown.
std::string picture(const LinearLayout& layout);

} // namespace kiln::gpu
