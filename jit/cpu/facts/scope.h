// Declares the set of values that a region defines.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_set>

namespace kiln::cpu {

// Results of the region's own operations and its arguments, but not values of nested regions.
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
