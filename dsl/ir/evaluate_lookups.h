// Evaluates gathers, sorts and histograms of whole tiles, for the interpreter.
#pragma once

#include <kiln/dsl/ir/evaluate_tiles.h>

namespace kiln::ir {

Cells evaluate_gather(const Op& op, const Cells& x, const Cells& indices);
// The sorted elements, and their indices.
std::vector<Cells> evaluate_sort(const Op& op, const Cells& x);
// `mask` may be null.
Cells evaluate_histogram(const Op& op, const Cells& x, const Cells* mask);

} // namespace kiln::ir
