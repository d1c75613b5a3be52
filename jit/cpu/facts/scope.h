// The values that a region computes.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_set>

namespace kiln::cpu {

// Those that it computes itself, its arguments too.
class Scope {
public:
  explicit Scope(const ir::Region& region) {
    for (const auto& arg : region.args)
      values_.insert(arg.get());
    for (const auto& op : region.ops)
      for (const auto& result : op->results)
        values_.insert(result.get());
  }
  bool has(const ir::Value* v) const { return values_.count(v) != 0; }

private:
  std::unordered_set<const ir::Value*> values_;
};

} // namespace kiln::cpu
