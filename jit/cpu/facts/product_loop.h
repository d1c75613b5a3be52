// Finds the loops over K that are one matrix product.
//
//   for k in 0, BK, 2 BK, ... below K:  sum += dot(a[m : m + BM, k : k + BK], b[k : k + BK, n : n + BN])
//
// is the product of a BM x K and a K x BN matrix, however small BK is. A *product loop* is such a loop and
// nothing else; the emitter turns it into one call of the routine in dot/, which chooses its own steps of K.
// Where each operand is a plain load of a view, the routine reads it in place. Where one is computed
// (dequantised, scaled, cast), steps of K are gathered in scratch first, several at a time.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/passes/non_negative.h>

#include <optional>
#include <vector>

namespace kiln::cpu {

struct ProductOperand {
  const ir::Value* value = nullptr; // the dot's operand
  const ir::Op* load = nullptr;   // the plain load that it is, not counting transpositions; null if computed
  std::vector<std::size_t> order; // which axis of the load's tile is axis i of the operand
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
//   4. If an operand is computed, both are matrices.
std::optional<ProductLoop> product_loop(const ir::Op& loop, const Plan& plan,
                                        const passes::NonNegativeScalars& non_negative);

} // namespace kiln::cpu
