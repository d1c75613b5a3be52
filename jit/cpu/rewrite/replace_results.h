// Declares a helper of rewrites that compute the result of an operation in another way.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <functional>

namespace kiln::cpu {

// Builds what replaces the only result of `op`; null if the operation stays. The builder inserts before `op`.
using Replacement = std::function<ir::Value*(const ir::Op& op, ir::Builder& builder)>;

// Calls `replacement` for every operation of the kernel, inner operations first, replaces the results and
// removes dead code.
void replace_results(ir::Kernel& kernel, const Replacement& replacement);

} // namespace kiln::cpu
