// Finds the loops over K that are one matrix product, and the kernels whose programs share one.
//
//   for k in 0, BK, 2 BK, ... below K:  sum += dot(a[m : m + BM, k : k + BK], b[k : k + BK, n : n + BN])
//
// is the product of a BM x K and a K x BN matrix, however small BK is. A *product loop* is such a loop and
// nothing else; the emitter turns it into one call of the routine in dot/, which chooses its own steps of K.
// Where each operand is a plain load of a view, the routine reads it in place. Where one is computed
// (dequantised, scaled, cast), steps of K are gathered in scratch first, several at a time.
//
// A *macro-product* goes further. Programs that differ in `m` alone multiply with the same columns of B, and
// a user's 64 x 64 tile would pack them anew for each: a fifth of the time. If the loop's operands depend on
// the program in this plain way, the product of a whole group of neighbouring programs is computed first, as
// one, and each program then takes its part of the sums. So are several products of a kernel, each with sums
// of its own, where their programs are grouped alike: the two of a gated layer.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/plan.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/passes/natural.h>

#include <array>
#include <optional>
#include <vector>

namespace kiln::cpu {

struct ProductOperand {
  const ir::Value* value = nullptr; // the dot's operand
  const ir::Op* load = nullptr;     // the plain load that it is, but for transpositions; null: it is computed
  std::vector<std::size_t> order;   // which axis of the load's tile is axis i of the operand
};

struct ProductLoop {
  const ir::Op* loop = nullptr;
  const ir::Op* dot = nullptr;
  ProductOperand a, b;
  std::int64_t step = 0; // of K
};

// `loop` is a For of a kernel that is bound. Conditions:
//   1. It carries one tile, which is the accumulator of its only dot, and yields that dot; the dot's result
//      has the accumulator's dtype.
//   2. Its step is a constant, and K of the dot; it has no effect on memory and no control flow within.
//   3. Of a plain operand, the offset along K is the loop's index, plus at most what does not change in the
//      loop; the other offsets do not change; none is negative. It is not put in scratch for other reasons.
//   4. If an operand is computed, both are matrices, and the step is a power of two or a multiple of 64.
std::optional<ProductLoop> product_loop(const ir::Op& loop, const Plan& plan,
                                        const passes::NaturalNumbers& naturals);

// How programs may be grouped: along which axes of the grid, and how many at most. -1: not along one.
struct MacroTile {
  int m_axis = -1, n_axis = -1;
  std::int64_t tile_m = 0, tile_n = 0; // of one program
  std::int64_t most_m = 1, most_n = 1; // programs of a group, along each axis
  std::int64_t most_programs = 1;      // and of a whole group
  double packing_a = 2;                // of one element of A, in columns that are multiplied in that time
  bool grouped() const { return most_m * most_n > 1; }
};

// Programs along each axis of the grid that one group has, for a launch of `grid` on so many threads: as
// large as leaves every thread an equal share.
std::array<std::int64_t, 8> choose_group(const MacroTile& tile, const std::int64_t* grid, int threads);

struct MacroProduct {
  std::vector<ProductLoop> products;
  MacroTile tile;
  std::vector<const ir::Op*> scalars; // what the products depend on, in order
  const ir::Op* store = nullptr;      // of the sums, if the kernel does nothing else with them
  unsigned apart = 0; // bit x: programs that differ along axis x of the grid store to other places
};

// Conditions for each product, beyond those of the loop:
//   1. It stands in the kernel's body, its operands are matrices and plain, and its sums start as zero.
//   2. Nothing writes memory before it.
//   3. A's row offset is program_id(x) * BM and nothing else depends on it; so for B's columns and y.
// The store is the kernel's only effect, plain, of rows that are contiguous if the view's are, and to the
// sums' own place in the grid: as a group they are then one rectangle of its view. Where programs that are
// not `apart` run, they may store the same to one place at once, which must then be written once, and whole.
std::optional<MacroProduct> macro_product(const ir::Kernel& bound, const Plan& plan,
                                          const passes::NaturalNumbers& naturals, const Target& target);
// As the emitter of that kernel for that target finds it.
MacroTile macro_tile(const ir::Kernel& bound, const Target& target);

} // namespace kiln::cpu
