// Checks the types of operations that access memory.
#include <kiln/dsl/ir/type_checker.h>

#include <algorithm>

namespace kiln::ir::detail {

void Checker::mask_and_other(int required, const Type& tile) {
  int at = required;
  if (op_.integer("has_mask")) mask(in(at++), tile.shape);
  if (!op_.integer("has_other")) return;
  const Type& other = in(at);
  require(other == tile || other == tile.with_shape({}),
          "other has type " + other.to_string() + ", expected " + tile.to_string() + " or its scalar");
}

bool Checker::view_operands(int values) {
  if (!require_least_operands(1)) return false;
  if (!require(in(0).is_view(), "the first operand has type " + in(0).to_string() + ", expected a view"))
    return false;
  int required = 1 + values + in(0).view_rank;
  return require(op_.num_operands() == required + optional_operands(),
                 "expected " + std::to_string(required + optional_operands()) + " operands (" +
                     (values ? "view, value, " : "view, ") + std::to_string(in(0).view_rank) +
                     " offsets, then mask and other where has_mask and has_other are 1), found " +
                     std::to_string(op_.num_operands()));
}

void Checker::offsets(int first, const Shape& shape) {
  const Type& view = in(0);
  for (int i = 0; i < view.view_rank; ++i)
    require_type(in(first + i), Type::tile(DType::I64, shape), "offset " + std::to_string(i));
}

// Checks that `axes` names a different axis of the view for each axis of the tile.
bool Checker::tile_axes(const Type& tile) {
  std::vector<std::int64_t> axes = op_.integers("axes");
  if (!require(static_cast<int>(axes.size()) == tile.rank(), "axes has " + std::to_string(axes.size()) +
                                                                 " entries for a tile of rank " +
                                                                 std::to_string(tile.rank())))
    return false;
  for (std::int64_t axis : axes)
    if (!require_axis(axis, in(0).view_rank)) return false;
  std::sort(axes.begin(), axes.end());
  return require(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "axes names a view axis twice");
}

void Checker::view_memory() {
  bool store = op_.is(Opcode::ViewStore);
  if (!view_operands(store)) return;
  const Type& tile = store ? in(1) : out();
  if (!is_value(tile, "the tile")) return;
  require(!store || !in(0).readonly, "the view is const; only a view without const can be stored to");
  require_type(tile, Type::tile(in(0).dtype, tile.shape), store ? "the value" : "the result");
  tile_axes(tile);
  offsets(store ? 2 : 1, {});
  mask_and_other(1 + store + in(0).view_rank, tile);
}

void Checker::view_indexed() {
  bool store = op_.is(Opcode::ViewScatter);
  if (!view_operands(store)) return;
  const Type& tile = store ? in(1) : out();
  if (!is_value(tile, "the tile")) return;
  require(!store || !in(0).readonly, "the view is const; only a view without const can be stored to");
  require_type(tile, Type::tile(in(0).dtype, tile.shape), store ? "the value" : "the result");
  offsets(store ? 2 : 1, tile.shape);
  mask_and_other(1 + store + in(0).view_rank, tile);
}

void Checker::view_address() {
  if (!view_operands(0)) return;
  if (!is_value(out(), "the result")) return;
  if (op_.is(Opcode::ViewPtrs))
    require_type(out(), Type::pointer_to(in(0).dtype, in(0).readonly, out().shape), "the result");
  else
    require_type(out(), Type::tile(DType::Bool, out().shape), "the result");
  tile_axes(out());
  offsets(1, {});
}

void Checker::pointer_memory() {
  bool store = op_.is(Opcode::Store);
  if (!require_operands(1 + store + optional_operands())) return;
  const Type& pointers = in(0);
  if (!require(!pointers.is_view() && pointers.pointer,
               "the first operand has type " + pointers.to_string() + ", expected pointers"))
    return;
  require(!store || !pointers.readonly,
          "the pointers are const; only pointers without const can be stored to");
  Type tile = Type::tile(pointers.dtype, pointers.shape);
  require_type(store ? in(1) : out(), tile, store ? "the value" : "the result");
  mask_and_other(1 + store, tile);
}

void Checker::atomic() {
  int values = op_.is(Opcode::AtomicCas) ? 2 : 1;
  if (!require_operands(1 + values + optional_operands())) return;
  const Type& pointers = in(0);
  if (!require(!pointers.is_view() && pointers.pointer,
               "the first operand has type " + pointers.to_string() + ", expected pointers"))
    return;
  require(!pointers.readonly, "the pointers are const; only pointers without const can be changed");
  Type tile = Type::tile(pointers.dtype, pointers.shape);
  for (int i = 1; i <= values; ++i)
    require_type(in(i), tile,
                 values == 1 ? "the value"
                 : i == 1    ? "the expected value"
                             : "the desired value");
  require_type(out(), tile, "the result");
  mask_and_other(1 + values, tile);
  std::string_view kind = op_.text("kind");
  if (kind == "and" || kind == "or" || kind == "xor")
    require(kind_of_element(tile) & (Bool | Integer),
            "atomic " + std::string(kind) + " takes bool or integers, not " + tile.to_string());
  if (kind == "add" || kind == "min" || kind == "max")
    require(kind_of_element(tile) & Number,
            "atomic " + std::string(kind) + " takes numbers, not " + tile.to_string());
}

} // namespace kiln::ir::detail
