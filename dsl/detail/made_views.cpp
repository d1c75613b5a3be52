// Implements the functions that record views which a kernel makes (slices, views of pointers), and loads of
// wide numbers.
#include <kiln/dsl/detail/recording.h>

#include <algorithm>

namespace kiln::detail {

using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

Value* index_of(Recording& r, Handle number) { return r.cast(number, DType::I64).value; }

// The value of a constant; 0 if it is not known while recording.
std::int64_t constant_in(const Value* v) {
  const bool constant = v->def && v->def->is(Opcode::Constant) && !is_float(v->type.dtype);
  return constant ? v->def->integer("value") : 0;
}

void refuse_negative(Recording& r, const Value* v, const char* what) {
  if (constant_in(v) < 0)
    throw UserError(r.loc,
                    in_kernel(r) + " makes a view " + what + " " + std::to_string(constant_in(v)) +
                        ", but indices and extents begin at 0; to count from the end write extent(axis) - n");
}

// Requires neighbours along the last axis of a view to be adjacent in memory: at the launch, or here if the
// kernel makes the view from a pointer.
void require_adjacent(Recording& r, Value* view) {
  const int last = view->type.view_rank - 1;
  while (view->def && view->def->is(Opcode::ViewSlice))
    view = view->def->operand(0);
  if (view->def) {
    const Value* stride = view->def->operand(view->def->num_operands() - 1);
    if (constant_in(stride) == 1) return;
    throw UserError(r.loc, in_kernel(r) +
                               " uses load_as on a view whose stride along the last axis is not the "
                               "number 1; give raw::view this stride, or use raw::load_as");
  }
  // The check belongs to the top of the kernel, also if the load is in a loop.
  ir::Builder top(r.scopes.front().region);
  top.set_location(r.loc);
  ir::Op* stride = top.create(Opcode::ViewStride, {view}, {Type::scalar(DType::I64)});
  stride->set("axis", std::int64_t{last});
  Value* one = top.constant(DType::I64, std::int64_t{1});
  ir::Op* check =
      top.create(Opcode::Expects, {top.binary(Opcode::Eq, stride->result(), one), stride->result(), one}, {});
  check->set("message", std::string("the stride of the last axis of a view that load_as reads"));
}

} // namespace

Handle emit_view_slice(Handle view, int axis, Handle begin, Handle end) {
  Recording& r = Recording::need("a view");
  Value* v = r.use(view);
  const int rank = v->type.view_rank;
  if (axis < -rank || axis >= rank)
    throw UserError(r.loc, in_kernel(r) + " slices axis " + std::to_string(axis) + " of a view of rank " +
                               std::to_string(rank) + "; axes are 0 to " + std::to_string(rank - 1));
  Value *first = index_of(r, begin), *last = index_of(r, end);
  refuse_negative(r, first, "that begins at");
  refuse_negative(r, last, "that ends at");
  return r.pure(Opcode::ViewSlice, {v, first, last}, Type::view(v->type.dtype, rank, v->type.readonly),
                {{"axis", axis < 0 ? axis + rank : axis}});
}

Handle emit_view_of(Handle pointer, const Handle* extents, const Handle* strides, int rank) {
  Recording& r = Recording::need("raw::view");
  Value* p = r.use(pointer);
  const auto count = static_cast<std::size_t>(rank);
  std::vector<Value*> sizes(count), steps(count);
  for (std::size_t i = 0; i < count; ++i) {
    sizes[i] = index_of(r, extents[i]);
    refuse_negative(r, sizes[i], "with an extent of");
    if (strides) steps[i] = index_of(r, strides[i]);
  }
  const Type index = Type::scalar(DType::I64);
  for (std::size_t i = count; !strides && i-- > 0;)
    steps[i] = i + 1 == count ? emit_integer(DType::I64, 1).value
                              : r.pure(Opcode::Mul, {steps[i + 1], sizes[i + 1]}, index).value;
  std::vector<Value*> operands{p};
  operands.insert(operands.end(), sizes.begin(), sizes.end());
  operands.insert(operands.end(), steps.begin(), steps.end());
  return r.pure(Opcode::ViewOf, std::move(operands), Type::view(p->type.dtype, rank, p->type.readonly));
}

Handle emit_load_as(Handle pointers, const Handle* mask, const Handle* other, const TypeInfo& pointer,
                    const TypeInfo& result) {
  Recording& r = Recording::need("load_as");
  Value* narrow = r.use(pointers);
  const Type type = to_type(result);
  std::vector<Value*> operands{r.pure(Opcode::Bitcast, {narrow}, to_type(pointer)).value};
  if (mask) operands.push_back(r.broadcast(*mask, type.shape).value);
  if (other) operands.push_back(r.broadcast(r.cast(*other, type.dtype), type.shape).value);
  const int align = std::min(size_of(narrow->type.dtype), size_of(type.dtype));
  ir::Op* op = r.effect(Opcode::Load, operands, {type}, {{"align", align}});
  if (mask) set_attributes(*op, {{"has_mask", 1}});
  if (other) set_attributes(*op, {{"has_other", 1}});
  return r.handle(op->result());
}

Handle emit_view_load_as(const TileAccess& at, const Handle* mask, const TypeInfo& element,
                         const TypeInfo& pointer, const TypeInfo& result) {
  Recording& r = Recording::need("load_as");
  if (at.tile_rank > 0 && !at.elements)
    throw UserError(r.loc, in_kernel(r) +
                               " uses load_as on a tile of a view, whose elements would overlap; give the "
                               "index of each number: load_as<...>(view.at(m, 4 * arange(BN)))");
  Value* view = r.use(at.view);
  require_adjacent(r, view);
  const TypeInfo inside_type{DType::Bool, false, false, result.rank, result.dims};
  // All of the elements must be inside: the first one and the last one.
  const int more = size_of(result.dtype) / size_of(view->type.dtype) - 1;
  std::vector<Handle> last(at.offsets, at.offsets + at.rank);
  Handle index = r.cast(last.back(), DType::I64);
  Handle count = r.broadcast(emit_integer(DType::I64, more), index.value->type.shape);
  last.back() = r.pure(Opcode::Add, {index.value, count.value}, index.value->type);
  TileAccess end = at;
  end.offsets = last.data();
  Handle inside =
      r.pure(Opcode::And, {emit_view_mask(at, inside_type).value, emit_view_mask(end, inside_type).value},
             to_type(inside_type));
  if (mask)
    inside = r.pure(Opcode::And, {inside.value, r.broadcast(*mask, to_type(result).shape).value},
                    to_type(inside_type));
  return emit_load_as(emit_view_ptrs(at, element), &inside, nullptr, pointer, result);
}

} // namespace kiln::detail
