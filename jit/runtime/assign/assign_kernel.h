// Builds the tile IR of a whole-tensor expression. Internal.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/assign/assign_plan.h>

#include <memory>

namespace kiln::detail {

// The parameters are the output, then the operands in order. The view of an operand has the axes along which
// it varies, at least one; a number is a scalar. The grid has the axes of the plan.
std::unique_ptr<ir::Kernel> record_assign(const AssignSite& site, const AssignKey& key, const Location& here);

// Writes the argument words of that kernel for `plan` and `operands`; returns their number.
int pack_assign(std::uint64_t* words, const AssignSite& site, const AssignPlan& plan,
                const AssignOperand* operands, const Location& here);
inline constexpr int max_assign_words = (1 + max_assign_operands) * (1 + 2 * max_rank);

} // namespace kiln::detail
