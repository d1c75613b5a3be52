// Draws the operations of random kernels whose results depend on the values of whole tiles: gathers, sorts
// and histograms.
#include <dsl/random_kernel_generator.h>

namespace kiln::test {

using namespace kiln::ir;

// Indices are random numbers, random numbers that are mostly in range, or counted from either end.
void KernelGenerator::gather_from_tile() {
  Value* x = any_tile();
  const std::int64_t axis = between(0, x->type.rank() - 1);
  Shape shape = x->type.shape;
  Dim& extent = shape[static_cast<std::size_t>(axis)];
  const Dim all = extent;
  extent = one_of(dims_);
  if (!fits(shape)) extent = all;
  const Type type = Type::tile(chance(50) ? DType::I64 : DType::I32, shape);
  auto number = [&](std::int64_t n) { return build_.splat(build_.constant(type.dtype, n), shape); };
  Value* i = nullptr;
  if (chance(50)) {
    i = value_of(type);
    if (chance(70)) i = build_.binary(Opcode::Rem, i, number(between(1, 20)));
  } else {
    i = build_.cast(counting(build_.index(between(-3, 3)), static_cast<int>(axis), shape), type.dtype);
    if (chance(40)) i = build_.binary(Opcode::Sub, number(between(0, 12)), i);
  }
  Op* op = build_.create(Opcode::Gather, {x, i}, {x->type.with_shape(shape)});
  op->set("axis", axis);
  add(op->result());
}

void KernelGenerator::sort() {
  Value* x = any_tile();
  const std::int64_t axis = between(0, x->type.rank() - 1);
  Shape shape = x->type.shape;
  if (chance(30)) shape[static_cast<std::size_t>(axis)] = Dim(1); // the first element only
  const Type sorted = x->type.with_shape(shape);
  Op* op = build_.create(Opcode::Sort, {x}, {sorted, sorted.with_dtype(DType::I32)});
  op->set("axis", axis);
  if (chance(50)) op->set("descending", std::int64_t{1});
  if (chance(60)) add(op->result(0));
  if (chance(60)) add(op->result(1));
}

void KernelGenerator::histogram() {
  Value* x = any_tile();
  if (!is_integer(x->type.dtype)) x = build_.cast(x, chance(50) ? DType::I32 : DType::I64);
  std::vector<Value*> operands = {x};
  const bool mask = chance(40);
  if (mask)
    operands.push_back(value_of(chance(80) ? x->type.with_dtype(DType::Bool) : Type::scalar(DType::Bool)));
  Op* op = build_.create(Opcode::Histogram, operands, {Type::tile(DType::I32, {one_of(dims_)})});
  if (mask) op->set("has_mask", std::int64_t{1});
  add(op->result());
}

} // namespace kiln::test
