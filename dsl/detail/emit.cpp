// Implements the functions that record constants, elementwise operations and memory accesses.
#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/symbol.h>

#include <algorithm>
#include <cmath>

namespace kiln::detail {

using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {
Recording& recording(std::string_view what) { return Recording::need(what); }
constexpr std::string_view a_value = "a tile or scalar";

std::vector<Value*> use_all(Recording& r, HandleSpan handles) {
  std::vector<Value*> values;
  for (int i = 0; i < handles.size; ++i)
    values.push_back(r.use(handles.data[i]));
  return values;
}

[[noreturn]] void does_not_fit(Recording& r, DType t, const std::string& number) {
  throw UserError(r.loc, in_kernel(r) + ": the number " + number + " does not fit into " +
                             std::string(name(t)) + "; cast the tile to a wider dtype first");
}

// Appends a mask and an `other`, broadcast to the tile's shape, to the operands of a memory operation.
struct MaskAndOther {
  std::vector<Value*>& operands;
  std::vector<AttributeInfo> attributes;

  void add(Recording& r, const Handle* mask, const Handle* other, const Type& tile) {
    if (mask) {
      operands.push_back(r.broadcast(*mask, tile.shape).value);
      attributes.push_back({"has_mask", 1});
    }
    if (other) {
      Handle cast = r.cast(*other, tile.dtype);
      operands.push_back(cast.value->type.is_scalar() ? cast.value : r.broadcast(cast, tile.shape).value);
      attributes.push_back({"has_other", 1});
    }
  }
  void set(ir::Op& op) const {
    for (const AttributeInfo& a : attributes)
      set_attributes(op, {a});
  }
};

void add_offsets(Recording& r, std::vector<Value*>& operands, const TileAccess& at, const ir::Shape& shape) {
  for (int i = 0; i < at.rank; ++i) {
    Handle index = r.cast(at.offsets[i], DType::I64);
    operands.push_back(at.elements ? r.broadcast(index, shape).value : index.value);
  }
}

// Throws the UserError about an index that is a negative number: it does not count from the end, and the
// access would reach no element at all. (The offset of a tile may be negative, because the tile may reach
// into the view.)
void check_indices(Recording& r, const TileAccess& at) {
  for (int i = 0; i < at.rank; ++i) {
    if (!at.elements && std::find(at.axes, at.axes + at.tile_rank, i) != at.axes + at.tile_rank) continue;
    const Value* index = r.use(at.offsets[i]);
    if (!index->def || index->def->code != Opcode::Constant || !is_signed(index->type.dtype)) continue;
    std::int64_t number = index->def->integer("value");
    if (number >= 0) continue;
    std::string axis = std::to_string(i);
    throw UserError(r.loc,
                    in_kernel(r) + " uses the index " + std::to_string(number) + " along axis " + axis +
                        " of a view, where there are no elements; to count from the end write extent(" +
                        axis + ") - " + std::to_string(-number));
  }
}

Handle view_fact(Recording& r, Opcode code, Value* view, int axis) {
  return r.pure(code, {view}, Type::scalar(DType::I64), {{"axis", axis}});
}
} // namespace

std::uint32_t current_scope() {
  Recording* r = Recording::current();
  return r ? r->scopes.back().id : 0;
}

void set_location(Location loc) {
  Recording* r = Recording::current();
  if (loc.line() == 0) return;
  if (r)
    r->loc = loc;
  else
    Recording::called_at(loc);
}

void assigned_in_region() {
  Recording& r = recording("a tile");
  throw UserError(r.loc,
                  in_kernel(r) +
                      " assigns to a tile of an outer region from inside a loop, branch or combine function; "
                      "declare it as Var, or return it as the loop's state");
}

Handle emit_integer(DType t, std::int64_t value) {
  Recording& r = recording(a_value);
  if (is_float(t)) return emit_float(t, static_cast<double>(value));
  if (int bits = 8 * size_of(t); t != DType::Bool && bits < 64) {
    std::int64_t least = -(std::int64_t{1} << (bits - 1)), limit = std::int64_t{1} << bits;
    if (value < least || value >= (is_signed(t) ? limit / 2 : limit))
      does_not_fit(r, t, std::to_string(value));
    // A negative number becomes its two's complement in an unsigned dtype, as in C++.
    if (is_unsigned(t) && value < 0) value += limit;
  }
  if (t == DType::Bool) value = value != 0;
  return r.pure(Opcode::Constant, {}, Type::scalar(t), {{"value", value}});
}

Handle emit_unsigned(DType t, std::uint64_t value) {
  if (is_float(t)) return emit_float(t, static_cast<double>(value));
  if (value > std::uint64_t{INT64_MAX} && t != DType::U64)
    does_not_fit(recording(a_value), t, std::to_string(value));
  return emit_integer(t, static_cast<std::int64_t>(value));
}

Handle emit_float(DType t, double value) {
  Recording& r = recording(a_value);
  return r.pure(Opcode::Constant, {}, Type::scalar(t), {{"value", 0, nullptr, nullptr, nullptr, &value}});
}

Handle emit(Opcode code, HandleSpan operands, const TypeInfo& result, AttributeList attributes) {
  Recording& r = recording(ir::name(code));
  std::vector<Value*> values = use_all(r, operands);
  if (ir::info(code).effect == ir::Effect::Pure)
    return r.pure(code, std::move(values), to_type(result), attributes);
  return r.handle(r.effect(code, std::move(values), {to_type(result)}, attributes)->result());
}

Handle emit_dot(HandleSpan operands, const TypeInfo& result, const char* precision, const char* sum_order) {
  if (!sum_order) return emit(Opcode::Dot, operands, result, {{"precision", 0, precision}});
  return emit(Opcode::Dot, operands, result, {{"precision", 0, precision}, {"sum_order", 0, sum_order}});
}

void emit_effect(Opcode code, HandleSpan operands, AttributeList attributes) {
  Recording& r = recording(ir::name(code));
  r.effect(code, use_all(r, operands), {}, attributes);
}

Handle emit_elementwise(Opcode code, HandleSpan operands, DType compute, const TypeInfo& result,
                        Location at) {
  set_location(at);
  Recording& r = recording(ir::name(code));
  Type type = to_type(result);
  std::vector<Value*> values;
  for (int i = 0; i < operands.size; ++i) {
    Handle h = operands.data[i];
    bool keep = i == 0 && (code == Opcode::Select || code == Opcode::PtrAdd);
    if (!keep && !r.use(h)->type.pointer) h = r.cast(h, compute);
    values.push_back(r.broadcast(h, type.shape).value);
  }
  return r.pure(code, std::move(values), std::move(type));
}

Handle emit_cast(Handle x, DType to) { return recording("a tile").cast(x, to); }

Handle emit_broadcast(Handle x, const TypeInfo& result) {
  return recording("a tile").broadcast(x, to_type(result).shape);
}

Handle emit_convert(Handle x, const TypeInfo& to) {
  Recording& r = recording("a tile");
  if (!to.pointer) x = r.cast(x, to.dtype);
  return r.broadcast(x, to_type(to).shape);
}

Handle emit_view_load(const TileAccess& at, const Handle* mask, const Handle* other, const TypeInfo& result) {
  Recording& r = recording("a load from a view");
  check_indices(r, at);
  Type type = to_type(result);
  std::vector<Value*> operands{r.use(at.view)};
  add_offsets(r, operands, at, type.shape);
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, other, type);
  ir::Op* op = r.effect(at.elements ? Opcode::ViewGather : Opcode::ViewLoad, operands, {type});
  if (!at.elements) set_attributes(*op, {{"axes", at.tile_rank, nullptr, at.axes}});
  extra.set(*op);
  return r.handle(op->result());
}

void emit_view_store(const TileAccess& at, Handle value, const Handle* mask, const TypeInfo& tile) {
  Recording& r = recording("a store to a view");
  check_indices(r, at);
  Type type = to_type(tile);
  std::vector<Value*> operands{r.use(at.view), r.broadcast(r.cast(value, tile.dtype), type.shape).value};
  add_offsets(r, operands, at, type.shape);
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, nullptr, type);
  ir::Op* op = r.effect(at.elements ? Opcode::ViewScatter : Opcode::ViewStore, operands, {});
  if (!at.elements) set_attributes(*op, {{"axes", at.tile_rank, nullptr, at.axes}});
  extra.set(*op);
}

Handle emit_view_ptrs(const TileAccess& at, const TypeInfo& result) {
  Recording& r = recording("a tile of a view");
  Type type = to_type(result);
  std::vector<Value*> operands{r.use(at.view)};
  add_offsets(r, operands, at, type.shape);
  if (!at.elements)
    return r.pure(Opcode::ViewPtrs, operands, type, {{"axes", at.tile_rank, nullptr, at.axes}});
  Type index = Type::tile(DType::I64, type.shape);
  Handle sum = r.broadcast(emit_integer(DType::I64, 0), type.shape);
  for (int i = 0; i < at.rank; ++i) {
    Handle stride = r.broadcast(view_fact(r, Opcode::ViewStride, operands[0], i), type.shape);
    Handle step = r.pure(Opcode::Mul, {operands[static_cast<std::size_t>(i) + 1], stride.value}, index);
    sum = r.pure(Opcode::Add, {sum.value, step.value}, index);
  }
  Handle data = r.broadcast(r.pure(Opcode::ViewData, {operands[0]}, type.with_shape({})), type.shape);
  return r.pure(Opcode::PtrAdd, {data.value, sum.value}, type);
}

Handle emit_view_mask(const TileAccess& at, const TypeInfo& result) {
  Recording& r = recording("a tile of a view");
  check_indices(r, at);
  Type type = to_type(result);
  std::vector<Value*> operands{r.use(at.view)};
  add_offsets(r, operands, at, type.shape);
  if (!at.elements)
    return r.pure(Opcode::ViewMask, operands, type, {{"axes", at.tile_rank, nullptr, at.axes}});
  Value* zero = r.broadcast(emit_integer(DType::I64, 0), type.shape).value;
  Handle mask;
  for (int i = 0; i < at.rank; ++i) {
    Value* index = operands[static_cast<std::size_t>(i) + 1];
    Value* extent = r.broadcast(view_fact(r, Opcode::ViewExtent, operands[0], i), type.shape).value;
    Handle inside = r.pure(
        Opcode::And,
        {r.pure(Opcode::Ge, {index, zero}, type).value, r.pure(Opcode::Lt, {index, extent}, type).value},
        type);
    mask = mask.value ? r.pure(Opcode::And, {mask.value, inside.value}, type) : inside;
  }
  return mask;
}

Handle emit_view_fact(Opcode code, Handle view, int axis) {
  Recording& r = recording("a view");
  Value* v = r.use(view);
  int rank = v->type.view_rank;
  if (axis < -rank || axis >= rank)
    throw UserError(r.loc, in_kernel(r) + " requests axis " + std::to_string(axis) + " of a view of rank " +
                               std::to_string(rank) + "; axes are 0 to " + std::to_string(rank - 1));
  return view_fact(r, code, v, axis < 0 ? axis + rank : axis);
}

Handle emit_grid_fact(Opcode code, int axis) {
  Recording& r = recording(ir::name(code));
  if (axis < 0 || axis >= ir::max_rank)
    throw UserError(r.loc, in_kernel(r) + " uses " + std::string(ir::name(code)) + "(" +
                               std::to_string(axis) + "); the axes of a grid are 0 to " +
                               std::to_string(ir::max_rank - 1));
  return r.pure(code, {}, Type::scalar(DType::I64), {{"axis", axis}});
}

Handle emit_load(Handle pointers, const Handle* mask, const Handle* other, const TypeInfo& tile,
                 const char* cache) {
  Recording& r = recording("raw::load");
  Type type = to_type(tile);
  std::vector<Value*> operands{r.broadcast(pointers, type.shape).value};
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, other, type);
  ir::Op* op = r.effect(Opcode::Load, operands, {type});
  extra.set(*op);
  if (cache) op->set("cache", std::string(cache));
  return r.handle(op->result());
}

void emit_store(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile) {
  Recording& r = recording("raw::store");
  Type type = to_type(tile);
  std::vector<Value*> operands{r.broadcast(pointers, type.shape).value,
                               r.broadcast(r.cast(value, tile.dtype), type.shape).value};
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, nullptr, type);
  extra.set(*r.effect(Opcode::Store, operands, {}));
}

Handle emit_atomic(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile, const char* kind,
                   const char* order, const char* scope) {
  Recording& r = recording("an atomic");
  Type type = to_type(tile);
  std::vector<Value*> operands{r.broadcast(pointers, type.shape).value,
                               r.broadcast(r.cast(value, tile.dtype), type.shape).value};
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, nullptr, type);
  ir::Op* op = r.effect(Opcode::AtomicRmw, operands, {type},
                        {{"kind", 0, kind}, {"order", 0, order}, {"scope", 0, scope}});
  extra.set(*op);
  return r.handle(op->result());
}

Handle emit_atomic_cas(Handle pointers, Handle expected, Handle desired, const Handle* mask,
                       const TypeInfo& tile, const char* order, const char* scope) {
  Recording& r = recording("an atomic");
  Type type = to_type(tile);
  std::vector<Value*> operands{r.broadcast(pointers, type.shape).value,
                               r.broadcast(r.cast(expected, tile.dtype), type.shape).value,
                               r.broadcast(r.cast(desired, tile.dtype), type.shape).value};
  MaskAndOther extra{operands, {}};
  extra.add(r, mask, nullptr, type);
  ir::Op* op = r.effect(Opcode::AtomicCas, operands, {type}, {{"order", 0, order}, {"scope", 0, scope}});
  extra.set(*op);
  return r.handle(op->result());
}

void emit_program_tile(Handle view, const DimInfo* const* dims, const int* axes, int count, Handle* offsets) {
  Recording& r = recording("program_tile");
  Value* v = r.use(view);
  if (v->def)
    throw UserError(r.loc, in_kernel(r) +
                               " calls program_tile for a view that the kernel makes, whose extents "
                               "the host does not know at launch; use a parameter of the kernel, "
                               "or program_id and a Grid");
  if (!r.kernel->grid.empty())
    throw UserError(
        r.loc,
        in_kernel(r) + " calls program_tile twice; one view defines the grid, the others follow its offsets");
  if (r.scopes.size() > 1)
    throw UserError(r.loc, in_kernel(r) +
                               " calls program_tile inside a loop or branch; call it first in the kernel");
  ir::Shape shape;
  for (int i = 0; i < count; ++i) {
    shape.push_back(to_dim(*dims[i]));
    r.kernel->grid.push_back({v->index, axes[i], shape.back()});
  }
  const bool leading = axes[count - 1] == count - 1;
  std::vector<Type> types(static_cast<std::size_t>(count), Type::scalar(DType::I64));
  ir::Op* op = r.effect(Opcode::ProgramTile, {v}, std::move(types));
  op->set("dims", shape);
  if (!leading) set_attributes(*op, {{"axes", count, nullptr, axes}});
  for (int i = 0; i < count; ++i)
    offsets[i] = r.handle(op->result(i));
}

std::int64_t bound_value(const DimInfo& dim) {
  Recording& r = recording("value(" + to_dim(dim).to_string() + ")");
  r.kernel->config_specific = true;
  try {
    return to_dim(dim).bind(r.config);
  } catch (const UserError& e) {
    throw UserError(r.loc, e.what());
  }
}

} // namespace kiln::detail
