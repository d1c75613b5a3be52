// Rebuilds each region with the replacements in it, then replaces all uses at once.
#include <kiln/jit/cpu/rewrite/replace_results.h>

#include <kiln/jit/passes/passes.h>

namespace kiln::cpu {

namespace {

void replace_in(ir::Region& region, const Replacement& replacement, ir::ValueMap& replaced) {
  std::vector<std::unique_ptr<ir::Op>> old = std::move(region.ops);
  region.ops.clear();
  ir::Builder builder(&region);
  for (auto& op : old) {
    for (auto& inner : op->regions)
      replace_in(*inner, replacement, replaced);
    builder.set_location(op->loc);
    if (ir::Value* made = replacement(*op, builder)) replaced[op->result()] = made;
    region.ops.push_back(std::move(op));
  }
}

} // namespace

void replace_results(ir::Kernel& kernel, const Replacement& replacement) {
  ir::ValueMap replaced;
  replace_in(kernel.body, replacement, replaced);
  if (replaced.empty()) return;
  ir::replace_uses(kernel.body, replaced);
  passes::dce(kernel, {});
}

} // namespace kiln::cpu
