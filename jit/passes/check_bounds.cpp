// check-bounds: asserts before every gather and scatter that its indices lie inside the view. Runs when
// debugging.
//
//  1. Only elements that are not masked off are checked.
//  2. Tiles of a view (view_load, view_store) are not checked: to reach over the edge is what they are for.
//  3. So are indices that count positions (offsets, arange, extents, parameters): they reach over the edge as
//     tiles do. Checked are indices that were read from memory or carried by a loop, which may be wrong.
//  4. A read with `other` says what outside elements are, and is not checked.
//  5. The operation itself stays as it is, so what it does after a failed check is still defined.
#include <kiln/jit/passes/passes.h>

#include <unordered_map>

namespace kiln::passes {

using namespace ir;

namespace {

// Whether a value depends on what memory holds, or may: see rule 3.
class DataDependence {
public:
  bool of(const Value* value) {
    auto [at, fresh] = known_.try_emplace(value, false);
    if (!fresh) return at->second;
    const bool depends = find(*value);
    return known_[value] = depends;
  }

private:
  bool find(const Value& value) {
    if (!value.def) {
      const Op* loop = value.region ? value.region->parent : nullptr;
      return loop && !(loop->is(Opcode::For) && value.index == 0);
    }
    switch (value.def->code) {
    case Opcode::ViewLoad:
    case Opcode::ViewGather:
    case Opcode::Load:
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::For:
    case Opcode::While:
    case Opcode::If: return true;
    default:
      for (const Value* operand : value.def->operands)
        if (of(operand)) return true;
      return false;
    }
  }
  std::unordered_map<const Value*, bool> known_;
};

void check_region(Region& region, DataDependence& data) {
  std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
  region.ops.clear();
  Builder build(&region);
  for (auto& op : old) {
    for (const auto& inner : op->regions)
      check_region(*inner, data);
    if ((op->is(Opcode::ViewGather) && !op->other()) || op->is(Opcode::ViewScatter)) {
      build.set_location(op->loc);
      Value* view = op->operand(0);
      Value* inside = nullptr;
      int axis = -1;
      for (Value* index : op->view_offsets()) {
        ++axis;
        if (!data.of(index)) continue;
        Op* extent = build.create(Opcode::ViewExtent, {view}, {Type::scalar(DType::I64)});
        extent->set("axis", std::int64_t{axis});
        const Shape& shape = index->type.shape;
        Value* low = build.binary(Opcode::Ge, index, build.splat(build.index(0), shape));
        Value* high = build.binary(Opcode::Lt, index, build.splat(extent->result(), shape));
        Value* both = build.binary(Opcode::And, low, high);
        inside = inside ? build.binary(Opcode::And, inside, both) : both;
      }
      if (inside) {
        std::vector<Value*> operands{inside};
        if (Value* mask = op->mask()) operands.push_back(mask);
        std::string name =
            view->name ? std::string(view->name) : "parameter " + std::to_string(view->index + 1);
        Op* check = build.create(Opcode::DeviceAssert, operands, {});
        if (op->mask()) check->set("has_mask", std::int64_t{1});
        check->set("message", std::string(op->is(Opcode::ViewGather) ? "a read" : "a write") +
                                  " by index lies outside the view (" + name +
                                  "); mask it off or mend the index");
      }
    }
    region.ops.push_back(std::move(op));
  }
}

} // namespace

void check_bounds(Kernel& kernel, const PassOptions&) {
  DataDependence data;
  check_region(kernel.body, data);
}

} // namespace kiln::passes
