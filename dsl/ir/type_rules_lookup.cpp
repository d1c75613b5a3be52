// Checks the types of operations whose results depend on the values of whole tiles: gather, sort, histogram.
#include <kiln/dsl/ir/type_checker.h>

namespace kiln::ir::detail {

namespace {

// `shape` with the extent of `other` along `axis`.
Shape with_extent(Shape shape, const Shape& other, std::int64_t axis) {
  shape[static_cast<std::size_t>(axis)] = other[static_cast<std::size_t>(axis)];
  return shape;
}

} // namespace

void Checker::lookup() {
  for (int i = 0; i < op_.num_operands(); ++i)
    if (!is_value(in(i), "operand " + std::to_string(i))) return;
  if (!require_least_operands(1)) return;
  if (!require(in(0).is_tile(), "operand 0 has type " + in(0).to_string() + ", expected a tile")) return;
  switch (op_.code) {
  case Opcode::Gather: return gather();
  case Opcode::Sort: return sort();
  default: return histogram();
  }
}

void Checker::gather() {
  const std::int64_t axis = op_.integer("axis");
  require_elements(in(0), Bool | Number);
  if (!require_axis(axis, in(0).rank())) return;
  const Type& indices = in(1);
  const bool integers = !indices.pointer && (indices.dtype == DType::I32 || indices.dtype == DType::I64);
  require(integers, "the indices have type " + indices.to_string() + ", expected i32 or i64");
  if (!require(indices.rank() == in(0).rank(), "the indices have rank " + std::to_string(indices.rank()) +
                                                   ", expected that of " + in(0).to_string()))
    return;
  require_shape(indices, with_extent(in(0).shape, indices.shape, axis), "the tile of indices");
  require_type(out(), in(0).with_shape(indices.shape), "the result");
}

void Checker::sort() {
  const std::int64_t axis = op_.integer("axis");
  require_elements(in(0), Bool | Number);
  if (!require_axis(axis, in(0).rank())) return;
  const Type& sorted = out(0);
  if (!require(sorted.rank() == in(0).rank(),
               "result 0 has type " + sorted.to_string() + ", expected the rank of " + in(0).to_string()))
    return;
  const Dim &all = in(0).shape[static_cast<std::size_t>(axis)],
            &kept = sorted.shape[static_cast<std::size_t>(axis)];
  require(!all.is_constant() || !kept.is_constant() || kept.value() <= all.value(),
          "the results have " + kept.to_string() + " elements along axis " + std::to_string(axis) +
              ", and the operand has " + all.to_string());
  require_type(sorted, in(0).with_shape(with_extent(in(0).shape, sorted.shape, axis)), "result 0");
  require_type(out(1), Type::tile(DType::I32, sorted.shape), "result 1");
}

void Checker::histogram() {
  if (!require_operands(1 + static_cast<int>(op_.integer("has_mask") != 0))) return;
  require_elements(in(0), Integer);
  if (op_.integer("has_mask")) mask(in(1), in(0).shape);
  require(out().is_tile() && out().rank() == 1 && !out().pointer && out().dtype == DType::I32,
          "the result has type " + out().to_string() + ", expected a tile of rank 1 of i32");
}

} // namespace kiln::ir::detail
