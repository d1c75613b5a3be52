// Declares the analysis that finds kernels whose programs share a product.
//
// Programs that differ only in the row offset `m` multiply by the same columns of B. With 64 x 64 tiles,
// packing these columns again for each program would take a fifth of the time. If the operands of the product
// loop depend on plain scalar arithmetic only, the product of a whole group of programs is computed first, as
// one product, and each program then takes its part of the sums. A kernel may have several such products,
// each with sums of its own, if they have the same groups: a gated layer has two.
//
// There are two kinds of groups. Where `m` is program_id(x) * BM and `n` is program_id(y) * BN, a group is a
// rectangle of the grid. Where both are computed from one axis of the grid, for example because a
// one-dimensional grid is reordered for a GPU's L2 cache, the place of each program is computed at run time,
// and a group is a number of consecutive programs that fill a rectangle, column by column or row by row.
#pragma once

#include <kiln/jit/cpu/facts/product_loop.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/cpu/tuning.h>

#include <array>
#include <span>

namespace kiln::cpu {

// Says along which axes of the grid programs may be grouped, and how many at most. An axis of -1 means none.
struct Grouping {
  int m_axis = -1, n_axis = -1;
  int computed_axis = -1; // the axis from which the places of programs are computed, if there is one
  std::int64_t tile_m = 0, tile_n = 0; // the tile of one program
  std::int64_t most_m = 1, most_n = 1; // the most programs of a group along each axis,
  std::int64_t most_programs = 1;      // and in total
  // The time to pack an element of A, in columns that could be multiplied meanwhile, and one of B, in rows.
  double packing_a = tuning::packing_a_cost, packing_b = tuning::packing_b_cost;
  // The time that a row costs whose next columns another thread stores, in multiplications.
  double shared_row_cost = 0;
  std::int64_t depth = 0; // K if it is a constant, otherwise 0
  int depth_word = -1;    // the word of a launch's arguments that holds K; -1: it is unknown
  bool has_groups() const { return most_m * most_n > 1; }
};

// Chooses the number of programs of a group along each axis of the grid, for a launch on that many threads:
// groups are as large as possible while threads still get equal shares. `grid` is 1 beyond its rank.
// `arguments` are those of the launch, or null.
std::array<std::int64_t, 8> choose_group(const Grouping& grouping, std::span<const std::int64_t, 8> grid,
                                         int threads, const std::uint64_t* arguments = nullptr);

struct GroupedProduct {
  std::vector<ProductLoop> products;
  Grouping grouping;
  std::vector<const ir::Op*> scalars; // the scalar operations that the products depend on, in program order
  // The store of the sums, if the kernel does nothing else with them. With AMX it may round the sums to bf16.
  const ir::Op* store = nullptr;
  bool rounds = false; // whether the store rounds
  // Bit x: programs that differ along axis x of the grid store to different places.
  unsigned disjoint_axes = 0;
  std::vector<const ir::Value*> reads; // the views that the products read; with a store, these are all reads
  // With a computed_axis, the scalars that depend on it: those that determine a program's rows of A and
  // columns of B, and others, which have to be equal for all programs of a group.
  std::vector<const ir::Value*> rows, columns, common;
  // Offsets that the analysis assumes to be non-negative. Programs in which one is negative are in no group.
  std::vector<const ir::Value*> assumed_non_negative;
};

// Finds the products that programs share. Each product follows the rules of product_loop.h, and these:
//   1. It is in the kernel's body, its operands are matrices, and its sums start as zero.
//   2. Nothing writes memory before it.
//   3. The row offset of A is program_id(x) * BM, and nothing else in the product depends on program_id(x).
//      The same holds for the columns of B and program_id(y). Or both offsets are computed from one axis of
//      the grid.
//   4. A computed operand (product_loop.h) uses no tile that the kernel keeps in a buffer. Instead of rule 3,
//      it may depend on program_id(x) in any way: the group computes the tile of each of its programs once.
// The kernel's store follows these:
//   5. It is the kernel's only effect, stores the sums or the rounded sums, and has no mask.
//   6. Its rows are contiguous if those of the view are.
//   7. Its offsets are those of the sums' own place in the grid, so that a group stores one rectangle of the
//      view.
// Programs that differ along an axis which is not in `disjoint_axes` may store the same values to one place
// at the same time. In such launches each element has to be written once, with its final value.
std::optional<GroupedProduct> grouped_product(const ir::Kernel& bound, const Plan& plan,
                                              const passes::NonNegativeScalars& non_negative,
                                              const Target& target);

} // namespace kiln::cpu
