// Rewrites that put something else in the place of an operation's result.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <functional>

namespace kiln::cpu {

// What is used instead of `op`'s only result, built before `op`; null where it stays.
using Replacement = std::function<ir::Value*(const ir::Op& op, ir::Builder& builder)>;

// Asks for every operation of the kernel, the inner ones first, and removes what is not used any more.
void replace_results(ir::Kernel& kernel, const Replacement& replacement);

} // namespace kiln::cpu
