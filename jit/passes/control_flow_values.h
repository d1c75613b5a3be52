// Lists how values move through loops and branches, for analyses that follow them to a fixed point.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace kiln::passes {

// The operands of a `for` that are not carried: lower, upper and step. The region's first argument is the
// index.
inline constexpr std::size_t for_bounds = 3;

// Calls f(from, to) for each value that becomes another one because `op` is a loop or a branch: what is
// carried into a region, from one iteration to the next, and out as a result. Returns false if `op` is
// neither.
template <class F> bool each_control_flow(const ir::Op& op, F f) {
  const auto yields = [&](const ir::Region& region, const std::vector<std::unique_ptr<ir::Value>>& to,
                          std::size_t first = 0) {
    const ir::Op* yield = region.terminator();
    for (std::size_t i = 0; yield && i < yield->operands.size() && first + i < to.size(); ++i)
      f(yield->operands[i], to[first + i].get());
  };
  switch (op.code) {
  case ir::Opcode::For:
    for (std::size_t i = for_bounds; i < op.operands.size(); ++i) {
      f(op.operands[i], op.region()->args[i - for_bounds + 1].get());
      f(op.operands[i], op.result(static_cast<int>(i - for_bounds)));
    }
    yields(*op.region(), op.region()->args, 1);
    yields(*op.region(), op.results);
    return true;
  case ir::Opcode::While:
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      f(op.operands[i], op.region(0)->args[i].get());
      f(op.operands[i], op.region(1)->args[i].get());
      f(op.operands[i], op.result(static_cast<int>(i)));
    }
    yields(*op.region(1), op.region(0)->args);
    yields(*op.region(1), op.region(1)->args);
    yields(*op.region(1), op.results);
    return true;
  case ir::Opcode::If:
    yields(*op.region(0), op.results);
    yields(*op.region(1), op.results);
    return true;
  default: return false;
  }
}

} // namespace kiln::passes
