// Counts the terms of each element of an output, and looks for decisions by floats.
#include <kiln/autotune/measure/kernel_numbers.h>

#include <kiln/jit/passes/cost.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kiln::tune {

double terms_per_element(const Situation& s, const MemoryPlan& plan, const LoadedCandidate& c) {
  constexpr double unknown = 1024;
  try {
    const auto lowered = passes::lower_generic(
        c.kernel->recorded(), {config_for(s.device, c.kernel->config_of(c.config)), {}, false});
    passes::KnownArguments known;
    for (std::uint64_t word : imagined_words(plan, s.arguments))
      known.words.emplace_back(word);
    if (c.grid) known.grid = {c.grid->x, c.grid->y, c.grid->z};
    const passes::Cost cost = passes::cost_of(*lowered, known);
    double elements = 0;
    for (const Block& block : plan.blocks)
      if (block.written) elements += static_cast<double>(block.bytes / size_of(block.dtype));
    const double terms = std::max(cost.longest_sum, cost.flops / std::max(1.0, elements));
    return std::isfinite(terms) ? terms : unknown;
  } catch (const Error&) {
    return unknown;
  }
}

bool decides_by_floats(const ir::Kernel& kernel) {
  bool found = false;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    if (op.operands.empty() || !is_float(op.operand(0)->type.dtype)) return;
    const ir::OpClass kind = op.info().cls;
    found |= op.is(ir::Opcode::Round) || op.is(ir::Opcode::Floor) || op.is(ir::Opcode::Ceil) ||
             op.is(ir::Opcode::Trunc) || kind == ir::OpClass::Compare ||
             (op.is(ir::Opcode::Cast) && !is_float(op.result()->type.dtype));
  });
  return found;
}

} // namespace kiln::tune
