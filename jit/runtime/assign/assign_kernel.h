// The tile IR of a whole-tensor expression. Not for users.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/runtime/assign/assign_plan.h>

#include <memory>

namespace kiln::detail {

// Parameters: the output, then the operands in order. Views of operands have the axes they vary along, at
// least one; numbers are scalars. The grid has the plan's axes.
std::unique_ptr<ir::Kernel> record_assign(const AssignSite& site, const AssignKey& key, const Location& here);

// The words of `plan` and `operands` as that kernel takes them; returns how many.
int pack_assign(std::uint64_t* words, const AssignSite& site, const AssignPlan& plan,
                const AssignOperand* operands, const Location& here);
inline constexpr int max_assign_words = (1 + max_assign_operands) * (1 + 2 * max_rank);

} // namespace kiln::detail
