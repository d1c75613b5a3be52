// Defines ErasedView, a view in the kernels of ops whose dtype is known while recording, and not in C++.
//
//   ErasedView<float, 2> x(parameter);           // the parameter is a view of bf16, for example
//   Tile t = x.tile(row, col).load();            // loads bf16 and casts: Tile<float, BM, BN>
//   y.tile(row, col).store(t);                   // casts to the dtype of y and stores
//
// So an op is compiled once for each dtype in which it computes, and not for each combination of dtypes.
#pragma once

#include <kiln/dsl/language.h>
#include <kiln/ops/detail/op_kernel.h>

namespace kiln::ops::detail {

DType dtype_of_view(const Handle& view);
Handle load_erased(const kiln::detail::TileAccess& at, DType dtype, const Handle* other,
                   kiln::detail::TypeInfo tile);
Handle round_erased(DType dtype, Handle value);
void store_erased(const kiln::detail::TileAccess& at, DType dtype, Handle value, const Handle* mask,
                  kiln::detail::TypeInfo tile);

// A tile in the dtype of its view, which only products use.
template <class S> struct StoredTile {
  Handle handle;
};
Handle transposed_stored(Handle tile);
template <class T, auto... D> auto stored_as(DType dtype, const Tile<T, D...>& x) {
  return StoredTile<kiln::detail::shape_t<Tile<T, D...>>>{kiln::detail::emit_cast(x.record(), dtype)};
}
template <class S> StoredTile<S> cast_stored(DType dtype, const StoredTile<S>& x) {
  return {kiln::detail::emit_cast(x.handle, dtype)};
}
template <class S, class... D> auto reshape(const StoredTile<S>& x, D...) {
  kiln::detail::TypeInfo type = kiln::detail::type_info<float, kiln::detail::Shape<D...>>;
  type.dtype = dtype_of_view(x.handle);
  return StoredTile<kiln::detail::Shape<D...>>{kiln::detail::emit(ir::Opcode::Reshape, {x.handle}, type)};
}
template <class M, class N>
StoredTile<kiln::detail::Shape<N, M>> trans(const StoredTile<kiln::detail::Shape<M, N>>& x) {
  return {transposed_stored(x.handle)};
}

// A tile of an ErasedView. A is the dtype in which the op computes, S the shape.
template <class A, int Rank, class S> class ErasedTile {
public:
  explicit ErasedTile(const TileRef<A, Rank, S>& at) : at_(at) {}

  // Elements outside of the view are zero, or `other`.
  auto load() const { return made(load_erased(access(), dtype(), nullptr, info())); }
  auto load_or(A other) const {
    const Handle number = kiln::detail::as_operand<A>(other).record();
    const Handle tile = kiln::detail::emit_convert(number, info());
    return made(load_erased(access(), dtype(), &tile, info()));
  }
  // Returns the tile as a load after its store would: rounded to the dtype of the view.
  template <class V> auto rounded(const V& value) const {
    return made(round_erased(dtype(), kiln::detail::emit_convert(Tile(value).record(), info())));
  }
  template <class V> void store(const V& value) const {
    store_erased(access(), dtype(), kiln::detail::emit_convert(Tile(value).record(), info()), nullptr,
                 info());
  }
  template <class V, class M> void store(const V& value, const M& mask) const {
    const Handle where = kiln::detail::emit_convert(Tile(mask).record(), kiln::detail::type_info<bool, S>);
    store_erased(access(), dtype(), kiln::detail::emit_convert(Tile(value).record(), info()), &where, info());
  }

  // Loads without a cast, for dot_erased.
  StoredTile<S> load_as_stored() const { return load_as_stored(static_cast<const Handle*>(nullptr)); }
  template <class M> StoredTile<S> load_as_stored_where(const M& mask) const {
    const Handle where = kiln::detail::emit_convert(Tile(mask).record(), kiln::detail::type_info<bool, S>);
    return load_as_stored(&where);
  }

private:
  StoredTile<S> load_as_stored(const Handle* mask) const {
    kiln::detail::TypeInfo stored = info();
    stored.dtype = dtype();
    return {kiln::detail::emit_view_load(access(), mask, nullptr, stored)};
  }
  static const kiln::detail::TypeInfo& info() { return kiln::detail::type_info<A, S>; }
  static auto made(const Handle& h) { return kiln::detail::tile_t<A, S>(h); }
  kiln::detail::TileAccess access() const {
    return {at_.view, at_.offsets, Rank, at_.axes, S::rank, at_.elements};
  }
  DType dtype() const { return dtype_of_view(at_.view); }

  TileRef<A, Rank, S> at_;
};

// Records sum + dot(a, b). Tiles of different dtypes, and all if the sum is of f64, are cast to the dtype
// that both fit: f32 or f64. The precision is for factors of f32.
struct DotOptions {
  Precision precision = Precision::ieee;
  SumOrder order = SumOrder::any;
};
Handle record_dot(Handle a, Handle b, Handle sum, const kiln::detail::TypeInfo& result, DotOptions options);
template <class A, class M, class K, class N, auto... D>
Tile<A, D...> dot_erased(const StoredTile<kiln::detail::Shape<M, K>>& a,
                         const StoredTile<kiln::detail::Shape<K, N>>& b, const Tile<A, D...>& sum,
                         DotOptions options = {}) {
  return Tile<A, D...>(record_dot(a.handle, b.handle, sum.record(),
                                  kiln::detail::type_info<A, kiln::detail::shape_t<Tile<A, D...>>>, options));
}

template <class A, int Rank> class ErasedView {
public:
  explicit ErasedView(const Handle& parameter) : view_(parameter) {}

  Scalar<std::int64_t> extent(int axis) const { return view_.extent(axis); }
  Scalar<std::int64_t> rows() const { return view_.rows(); }
  Scalar<std::int64_t> cols() const { return view_.cols(); }
  Scalar<std::int64_t> size() const { return view_.size(); }
  DType dtype() const { return dtype_of_view(view_.record()); }
  // For program_tile only, which does not depend on the dtype.
  const View<A, Rank>& view() const { return view_; }

  template <class... I> auto tile(const I&... index) const { return erased(view_.tile(index...)); }
  template <class... I> auto at(const I&... index) const { return erased(view_.at(index...)); }
  // The part of an axis from `begin` to `end` - 1, with bounds of its own.
  template <class B, class E> ErasedView slice(int axis, const B& begin, const E& end) const {
    return ErasedView(view_.slice(axis, begin, end).record());
  }

private:
  template <class S> static auto erased(const TileRef<A, Rank, S>& at) { return ErasedTile<A, Rank, S>(at); }

  View<A, Rank> view_;
};

} // namespace kiln::ops::detail
