// Implements the functions that record gathers, sorts and histograms.
#include <kiln/dsl/detail/recording.h>

namespace kiln::detail {

using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

// A tile of indices along `axis` of a gather whose result has this shape. Indices of rank 1 are the same
// along all other axes.
Handle placed_indices(Recording& r, Handle indices, int axis, const ir::Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (r.use(indices)->type.rank() == 1)
    for (int after = axis + 1; after < rank; ++after) {
      Value* v = r.use(indices);
      ir::Shape longer = v->type.shape;
      longer.push_back(ir::Dim(1));
      indices = r.pure(Opcode::ExpandDims, {v}, v->type.with_shape(longer), {{"axis", v->type.rank()}});
    }
  return r.broadcast(indices, shape);
}

// Indices of less than 64 bits become i32, in which a u32 of 2**31 or more is negative, and so outside as
// well.
Handle as_index(Recording& r, Handle x) {
  const DType t = r.use(x)->type.dtype;
  return r.cast(x, size_of(t) == 8 ? DType::I64 : DType::I32);
}

Handle record_gather(Recording& r, Handle tile, Handle indices, int axis, const Type& result) {
  const Handle placed = placed_indices(r, indices, axis, result.shape);
  return r.pure(Opcode::Gather, {r.use(tile), r.use(placed)}, result, {{"axis", axis}});
}

} // namespace

Handle emit_gather(Handle tile, Handle indices, int axis, const TypeInfo& result) {
  Recording& r = Recording::need("gather");
  return record_gather(r, tile, as_index(r, indices), axis, to_type(result));
}

Handle emit_positions(Handle tile, Handle first, bool backwards, int axis, const TypeInfo& result) {
  Recording& r = Recording::need("an element of a tile");
  const Type type = to_type(result);
  const Type line = Type::tile(DType::I64, {type.shape[static_cast<std::size_t>(axis)]});
  const Handle from = r.broadcast(r.cast(first, DType::I64), line.shape);
  const Handle numbers = r.pure(Opcode::Arange, {}, line, {{"start", 0}});
  const Handle indices = r.pure(backwards ? Opcode::Sub : Opcode::Add, {r.use(from), r.use(numbers)}, line);
  return record_gather(r, tile, indices, axis, type);
}

Handle emit_last_index(const DimInfo& extent) {
  Recording& r = Recording::need("flip");
  const Type i64 = Type::scalar(DType::I64);
  const Handle size = r.pure(Opcode::DimSize, {}, i64, {{"dim", 0, nullptr, nullptr, &extent}});
  return r.pure(Opcode::Sub, {size.value, emit_integer(DType::I64, 1).value}, i64);
}

void check_position(const char* function, std::int64_t position, const DimInfo& extent) {
  Recording& r = Recording::need(function);
  const ir::Dim dim = to_dim(extent);
  if (position >= 0 && (!dim.is_constant() || position < dim.value())) return;
  const bool constant = dim.is_constant();
  const std::string last = constant ? std::to_string(dim.value() - 1) : dim.to_string() + " - 1";
  std::string from_end;
  if (position < 0)
    from_end = "; to count from the end write " +
               (constant ? std::to_string(dim.value() + position)
                         : "dim_size(" + dim.to_string() + ") - " + std::to_string(-position));
  throw UserError(r.loc, in_kernel(r) + ": " + function + " at " + std::to_string(position) +
                             " is outside the axis, whose positions are 0 to " + last + from_end);
}

void check_part(const char* function, std::int64_t start, const DimInfo& size, const DimInfo& extent) {
  check_position(function, start, extent);
  const Recording& r = Recording::need(function);
  const ir::Dim part = to_dim(size), whole = to_dim(extent);
  if (!part.is_constant() || !whole.is_constant() || part.value() <= whole.value() - start) return;
  throw UserError(r.loc, in_kernel(r) + ": " + function + " takes " + std::to_string(part.value()) +
                             " elements from position " + std::to_string(start) + " on, but the axis has " +
                             std::to_string(whole.value()) + "; take fewer, or start at " +
                             std::to_string(whole.value() - part.value()) + " or before");
}

void emit_sort(Handle tile, int axis, bool descending, const TypeInfo& sorted, Handle* results) {
  Recording& r = Recording::need("sort");
  const Type type = to_type(sorted);
  ir::Op* op = r.effect(Opcode::Sort, {r.use(tile)}, {type, type.with_dtype(DType::I32)},
                        {{"axis", axis}, {"descending", descending}});
  results[0] = r.handle(op->result(0));
  results[1] = r.handle(op->result(1));
}

Handle emit_histogram(Handle tile, const Handle* mask, const TypeInfo& bins) {
  Recording& r = Recording::need("histogram");
  Value* x = r.use(tile);
  if (!mask) return r.pure(Opcode::Histogram, {x}, to_type(bins));
  Value* counted = r.use(r.broadcast(*mask, x->type.shape));
  return r.pure(Opcode::Histogram, {x, counted}, to_type(bins), {{"has_mask", 1}});
}

} // namespace kiln::detail
