// check-bounds: asserts before every gather and scatter that its indices lie inside the view. Runs when
// debugging.
//
//  1. Only elements that are not masked off are checked.
//  2. Tiles of a view (view_load, view_store) are not checked: to reach over the edge is what they are for.
//  3. The operation itself stays as it is, so what it does after a failed check is still defined.
#include <kiln/jit/passes/passes.h>

namespace kiln::passes {

using namespace ir;

namespace {

void check_region(Region& region) {
  std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
  region.ops.clear();
  Builder build(&region);
  for (auto& op : old) {
    for (const auto& inner : op->regions)
      check_region(*inner);
    if (op->is(Opcode::ViewGather) || op->is(Opcode::ViewScatter)) {
      build.set_location(op->loc);
      Value* view = op->operand(0);
      Value* inside = nullptr;
      int axis = 0;
      for (Value* index : op->view_offsets()) {
        Op* extent = build.create(Opcode::ViewExtent, {view}, {Type::scalar(DType::I64)});
        extent->set("axis", std::int64_t{axis++});
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

void check_bounds(Kernel& kernel, const PassOptions&) { check_region(kernel.body); }

} // namespace kiln::passes
