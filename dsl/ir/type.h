// Defines the types of tile IR values: scalars, tiles (of numbers or pointers) and views.
#pragma once

#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/dim.h>
#include <kiln/dsl/layout_class.h>

#include <string>

namespace kiln {

namespace ir {

inline constexpr int max_rank = 8;

// The type of a value. A scalar is a tile of rank 0. If `pointer` is true, the elements are pointers, and
// `dtype` is that of the pointee.
struct Type {
  enum class Kind : std::uint8_t { Value, View };

  Kind kind = Kind::Value;
  DType dtype = DType::F32;
  bool pointer = false;
  bool readonly = false;                 // of pointers and views: the memory is const
  LayoutClass layout = LayoutClass::Any; // of views
  int view_rank = 0;                     // of views
  Shape shape;                           // of values; empty for a scalar

  static Type scalar(DType t) { return tile(t, {}); }
  static Type tile(DType t, Shape shape) {
    Type r;
    r.dtype = t;
    r.shape = std::move(shape);
    return r;
  }
  static Type pointer_to(DType t, bool readonly, Shape shape = {}) {
    Type r = tile(t, std::move(shape));
    r.pointer = true;
    r.readonly = readonly;
    return r;
  }
  static Type view(DType t, int rank, bool readonly, LayoutClass layout = LayoutClass::Any) {
    Type r;
    r.kind = Kind::View;
    r.dtype = t;
    r.view_rank = rank;
    r.readonly = readonly;
    r.layout = layout;
    return r;
  }

  bool is_view() const { return kind == Kind::View; }
  bool is_scalar() const { return kind == Kind::Value && shape.empty(); }
  bool is_tile() const { return kind == Kind::Value && !shape.empty(); }
  int rank() const { return static_cast<int>(shape.size()); }
  Type with_dtype(DType t) const {
    Type r = *this;
    r.dtype = t;
    r.pointer = r.readonly = false;
    return r;
  }
  Type with_shape(Shape s) const {
    Type r = *this;
    r.shape = std::move(s);
    return r;
  }
  // Returns the size of an element in memory, in bytes.
  int element_bytes() const { return pointer ? 8 : size_of(dtype); }
  // Returns the number of elements. Throws InternalError unless every extent is a number.
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (const Dim& d : shape)
      n *= d.value();
    return n;
  }

  bool operator==(const Type&) const = default;
  // "f32", "ptr<const f32>", "tile<BM x 128 x f32>", "tile<BM x ptr<f32>>", "view<const bf16, 2, unit>"
  std::string to_string() const;
};

} // namespace ir
} // namespace kiln
