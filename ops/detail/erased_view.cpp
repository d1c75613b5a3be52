// Records the loads and stores of views whose dtype is known while recording only.
#include <kiln/ops/detail/erased_view.h>

#include <kiln/dsl/detail/recording.h>
#include <kiln/dsl/ir/ir.h>

namespace kiln::ops::detail {

using namespace kiln::detail;

DType dtype_of_view(const Handle& view) { return view.value->type.dtype; }

Handle load_erased(const TileAccess& at, DType dtype, const Handle* other, TypeInfo tile) {
  const DType to = tile.dtype;
  tile.dtype = dtype;
  Handle converted;
  if (other) converted = emit_cast(*other, dtype);
  return emit_cast(emit_view_load(at, nullptr, other ? &converted : nullptr, tile), to);
}

Handle round_erased(DType dtype, Handle value) {
  return emit_cast(emit_cast(value, dtype), value.value->type.dtype);
}

void store_erased(const TileAccess& at, DType dtype, Handle value, const Handle* mask, TypeInfo tile) {
  tile.dtype = dtype;
  emit_view_store(at, emit_cast(value, dtype), mask, tile);
}

Handle transposed_stored(Handle tile) {
  const ir::Shape& shape = tile.value->type.shape;
  static constexpr int order[] = {1, 0};
  Recording& r = Recording::need("a transposed tile");
  return r.pure(ir::Opcode::Permute, {r.use(tile)}, tile.value->type.with_shape({shape[1], shape[0]}),
                {{"order", 2, nullptr, order}});
}

Handle record_dot(Handle a, Handle b, Handle sum, const TypeInfo& result, DotOptions options) {
  const DType x = a.value->type.dtype, y = b.value->type.dtype;
  const bool wide = x == DType::F64 || y == DType::F64 || result.dtype == DType::F64;
  if (x != y || wide) {
    const DType both = wide ? DType::F64 : DType::F32;
    a = emit_cast(a, both);
    b = emit_cast(b, both);
  }
  return emit_dot({a, b, sum}, result, precision_names[static_cast<int>(options.precision)],
                  sum_order_names[static_cast<int>(options.order)]);
}

} // namespace kiln::ops::detail
