// Loops over K that multiply more than once, or do something else too, as a loop for each product:
//
//   for k: s += dot(a[m, k], b[k, n]); g += dot(a[m, k], c[k, n]); r += sum(a[m, k])
//
// becomes a loop for s, one for g and one for r. The first two are then product loops (product_loop.h), which
// is worth far more than reading `a` once: the routine that multiplies packs it anyway.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>

namespace kiln::cpu {

// A copy of a kernel that is bound, with such loops apart. Conditions for a product to leave a loop:
//   1. The loop writes nothing, and carries something else too.
//   2. What it carries is the accumulator of one dot and nothing else; the dot's result is what it yields.
//   3. Both operands are loads, but for transpositions, at places that depend on no other carried value.
std::unique_ptr<ir::Kernel> split_products(const ir::Kernel& bound);

} // namespace kiln::cpu
