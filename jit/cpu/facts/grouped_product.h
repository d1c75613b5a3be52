// Finds the kernels whose programs share a product.
//
// Programs that differ in `m` alone multiply with the same columns of B, and a user's 64 x 64 tile would pack
// them again for each: a fifth of the time. If what the loop's operands depend on is plain scalar arithmetic,
// the product of a whole group of programs is computed first, as one, and each program then takes its part of
// the sums. So are several products of a kernel, each with sums of its own, where their programs are grouped
// alike: the two of a gated layer.
//
// Groups are found in one of two ways. Where `m` is program_id(x) * BM and `n` is program_id(y) * BN, a group
// is a rectangle of the grid. Where both are computed from one axis of the grid, as in a grid of one axis
// whose programs are put into an order that is good for a GPU's cache, each program's place is computed while
// the kernel runs, and programs that follow each other and fill a rectangle, column by column or row by row,
// are a group.
#pragma once

#include <kiln/jit/cpu/facts/product_loop.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/cpu/tuning.h>

#include <array>
#include <span>

namespace kiln::cpu {

// How programs may be grouped: along which axes of the grid, and how many at most. -1: not along one.
struct Grouping {
  int m_axis = -1, n_axis = -1;
  int run_axis = -1;                   // or: that the places of programs are computed from
  std::int64_t tile_m = 0, tile_n = 0; // of one program
  std::int64_t most_m = 1, most_n = 1; // programs of a group, along each axis
  std::int64_t most_programs = 1;      // and of a whole group
  double packing_a =
      tuning::packing_a_cost; // of one element of A, in columns that are multiplied in that time
  double packing_b = tuning::packing_b_cost; // of one element of B, in rows
  double shared_row_cost = 0; // of a row whose next results another thread has, in multiplications
  std::int64_t depth = 0;     // K where it is a constant, else 0, and
  int depth_word = -1;        // the word of a launch's arguments that holds it; -1: it is not known
  bool has_groups() const { return most_m * most_n > 1; }
};

// Programs along each axis of the grid that one group has, for a launch of `grid` (1 beyond its rank) on so
// many threads: as large as leaves every thread an equal share. `arguments` are the launch's, where known.
std::array<std::int64_t, 8> choose_group(const Grouping& grouping, std::span<const std::int64_t, 8> grid,
                                         int threads, const std::uint64_t* arguments = nullptr);

struct GroupedProduct {
  std::vector<ProductLoop> products;
  Grouping grouping;
  std::vector<const ir::Op*> scalars; // what the products depend on, in order
  const ir::Op* store = nullptr;      // of the sums, if the kernel does nothing else with them
  bool rounds = false;                // or of the sums rounded to bf16, which tile registers can store so
  unsigned disjoint_axes = 0; // bit x: programs that differ along axis x of the grid store to other places
  std::vector<const ir::Value*> reads; // the views that the products depend on; of a store, all memory
  // With a run axis, scalars that depend on it: rows of A and columns of B, a program's place; and others,
  // which programs of a group have in common.
  std::vector<const ir::Value*> rows, columns, common;
  // Those of them that are not known to be non-negative. A program for which one is negative joins no group.
  std::vector<const ir::Value*> assumed_non_negative;
};

// Conditions for each product, beyond those of the loop:
//   1. It stands in the kernel's body, its operands are matrices, and its sums start as zero.
//   2. Nothing writes memory before it.
//   3. A's row offset is program_id(x) * BM and nothing else depends on it; so for B's columns and y. Or both
//      are computed from one axis of the grid.
//   4. An operand that is computed (product_loop.h) needs nothing that the kernel keeps in a buffer. In place
//      of 3 it may depend on program_id(x) in any way: the group computes the tiles of all its programs, each
//      once.
// The store, of the sums or of what they are rounded to, is the kernel's only effect, plain, of rows that are
// contiguous if the view's are, and to the sums' own place in the grid: as a group they are then one
// rectangle of its view. Where programs that are not `disjoint_axes` run, they may store the same to one
// place at once, which must then be written once, and whole.
std::optional<GroupedProduct> grouped_product(const ir::Kernel& bound, const Plan& plan,
                                              const passes::NonNegativeScalars& non_negative,
                                              const Target& target);

} // namespace kiln::cpu
