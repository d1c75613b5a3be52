// Runs the CPU's passes in their order, and looks for grouped products in what they leave.
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>

#include <kiln/jit/cpu/rewrite/passes.h>

namespace kiln::cpu {

std::unique_ptr<ir::Kernel> lower_for_cpu(const ir::Kernel& lowered) {
  auto kernel = lowered.clone();
  split_products(*kernel, {});
  split_flat_reductions(*kernel, {});
  halve_short_reductions(*kernel, {});
  return kernel;
}

Grouping grouping_of(const ir::Kernel& lowered, const Target& target) {
  bool has_dots = false;
  ir::walk(lowered.body, [&](const ir::Op& op) { has_dots |= op.is(ir::Opcode::Dot); });
  if (!has_dots) return {};
  const auto kernel = lower_for_cpu(lowered);
  const auto grouped = grouped_product(*kernel, Plan(*kernel), passes::non_negative_scalars(*kernel), target);
  return grouped ? grouped->grouping : Grouping();
}

} // namespace kiln::cpu
