// Declares the recognition of product loops: loops over K that compute one matrix product.
//
//   for k in 0, BK, 2 BK, ... below K:  sum += dot(a[m : m + BM, k : k + BK], b[k : k + BK, n : n + BN])
//
// is the product of a BM x K and a K x BN matrix, however small BK is. The emitter turns a product loop into
// one call of a routine of dot/, which chooses its own steps of K. The routine reads an operand in place if
// it is a plain load of a view. An operand that is computed (dequantised, scaled, cast) is first gathered in
// scratch memory, many steps of K at a time.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/passes/non_negative.h>

#include <optional>
#include <vector>

namespace kiln::cpu {

struct ProductOperand {
  const ir::Value* value = nullptr; // the dot's operand
  const ir::Op* load = nullptr;     // its plain load, possibly permuted; null: it is computed
  std::vector<std::size_t> order;   // axis i of the operand is axis order[i] of the load's tile
};

struct ProductLoop {
  const ir::Op* loop = nullptr;
  const ir::Op* dot = nullptr;
  ProductOperand a, b;
  std::int64_t step = 0; // the step of K
};

// Recognises a product loop. `loop` is a `for` of a bound kernel, and follows these rules:
//   1. It carries one tile, which is the accumulator of its only dot, and yields the result of that dot. The
//      dtype of the sums is the one in which dot accumulates (dot/dot_shape.h).
//   2. Its step is a constant and the K of the dot. It does not write memory, and contains no control flow.
//   3. A plain operand has an offset along K that is the loop's index, possibly plus a loop-invariant value.
//      Its other offsets are loop-invariant. No offset is negative. Its tile has no buffer.
//   4. If an operand is computed, both are matrices.
std::optional<ProductLoop> product_loop(const ir::Op& loop, const Plan& plan,
                                        const passes::NonNegativeScalars& non_negative);

} // namespace kiln::cpu
