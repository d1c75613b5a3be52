// Builds reductions and scans of masks.
#include <kiln/jit/passes/mask_reductions.h>

namespace kiln::passes {

using namespace ir;

namespace {

Op* combine_along(Builder& build, Opcode code, Value* mask, const Shape& result, std::int64_t axis,
                  Opcode combine) {
  const Type type = result.empty() ? Type::scalar(DType::Bool) : Type::tile(DType::Bool, result);
  Op* op = build.create(code, {mask}, {type});
  op->set("axis", axis);
  Region* region = op->add_region();
  Value* a = region->add_arg(Type::scalar(DType::Bool));
  Value* b = region->add_arg(Type::scalar(DType::Bool));
  Builder inner(region);
  inner.set_location(build.location());
  inner.yield({inner.binary(combine, a, b)});
  return op;
}

} // namespace

Value* combined_like(Builder& build, const Op& like, Value* mask, Opcode combine) {
  Op* op = combine_along(build, like.code, mask, like.result()->type.shape, like.integer("axis"), combine);
  if (const Attribute* reverse = like.find("reverse")) op->set("reverse", *reverse);
  return op->result();
}

Value* any_of(Builder& build, Value* mask) {
  while (mask->type.is_tile()) {
    Shape rest = mask->type.shape;
    rest.pop_back();
    mask =
        combine_along(build, Opcode::Reduce, mask, rest, static_cast<std::int64_t>(rest.size()), Opcode::Or)
            ->result();
  }
  return mask;
}

} // namespace kiln::passes
