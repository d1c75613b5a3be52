// licm: moves operations out of loops if they compute the same value in every iteration.
//
//  1. All operands, and all outer values that its regions use, are defined outside the loop.
//  2. The operation is pure, or it is a load and nothing in the loop may write. Pure operations do not trap,
//     so that they may run even if the body of the loop never does.
//  3. A load through raw pointers does not check bounds, so that it only leaves a loop that has at least one
//     iteration. Loads through views check bounds, and leave any loop.
//  4. Operations inside a branch stay there.
// Inner loops come first, so that an operation that leaves one can leave the outer loop, too.
#include <kiln/jit/passes/passes.h>

#include <unordered_set>

namespace kiln::passes {

namespace {

using namespace ir;

bool surely_runs(const Op& loop) {
  if (!loop.is(Opcode::For)) return false;
  const Op *lower = loop.operand(0)->def, *upper = loop.operand(1)->def, *step = loop.operand(2)->def;
  return lower && upper && step && lower->is(Opcode::Constant) && upper->is(Opcode::Constant) &&
         step->is(Opcode::Constant) && lower->integer("value") < upper->integer("value") &&
         step->integer("value") > 0;
}

class Hoister {
public:
  void run(Region& region) {
    for (std::size_t i = 0; i < region.ops.size(); ++i) {
      Op& op = *region.ops[i];
      for (auto& inner : op.regions)
        run(*inner);
      if (!op.is(Opcode::For) && !op.is(Opcode::While)) continue;
      std::vector<std::unique_ptr<Op>> hoisted = hoist(op);
      auto count = static_cast<std::ptrdiff_t>(hoisted.size());
      region.ops.insert(region.ops.begin() + static_cast<std::ptrdiff_t>(i),
                        std::make_move_iterator(hoisted.begin()), std::make_move_iterator(hoisted.end()));
      i += static_cast<std::size_t>(count);
    }
  }

private:
  static void collect_inside(const Region& region, std::unordered_set<const Value*>& inside) {
    for (const auto& arg : region.args)
      inside.insert(arg.get());
    for (const auto& op : region.ops) {
      for (const auto& r : op->results)
        inside.insert(r.get());
      for (const auto& inner : op->regions)
        collect_inside(*inner, inside);
    }
  }

  // Whether `op` uses no value that is defined in the loop, except in its own regions.
  static bool is_invariant(const Op& op, const std::unordered_set<const Value*>& inside) {
    for (const Value* v : op.operands)
      if (inside.contains(v)) return false;
    std::unordered_set<const Value*> own;
    for (const auto& region : op.regions)
      collect_inside(*region, own);
    bool invariant = true;
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& inner) {
        for (const Value* v : inner.operands)
          invariant &= own.contains(v) || !inside.contains(v);
      });
    return invariant;
  }

  static std::vector<std::unique_ptr<Op>> hoist(Op& loop) {
    std::unordered_set<const Value*> inside;
    for (const auto& region : loop.regions)
      collect_inside(*region, inside);
    bool loop_writes = may_write(loop), runs = surely_runs(loop);
    auto may_move = [&](const Op& op) {
      if (op.is(Opcode::Yield) || has_side_effects(op)) return false;
      if (op.is(Opcode::For) || op.is(Opcode::While) || op.is(Opcode::If)) return false;
      if (!may_read(op)) return true;
      return !loop_writes && (runs || !op.is(Opcode::Load));
    };
    std::vector<std::unique_ptr<Op>> hoisted;
    for (auto& region : loop.regions) {
      std::vector<std::unique_ptr<Op>> kept;
      for (auto& op : region->ops) {
        if (!may_move(*op) || !is_invariant(*op, inside)) {
          kept.push_back(std::move(op));
          continue;
        }
        for (const auto& r : op->results)
          inside.erase(r.get());
        hoisted.push_back(std::move(op));
      }
      region->ops = std::move(kept);
    }
    return hoisted;
  }
};

} // namespace

void licm(Kernel& kernel, const PassOptions&) { Hoister().run(kernel.body); }

} // namespace kiln::passes
