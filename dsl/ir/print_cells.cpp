// Implements the formatting of numbers and tiles.
#include <kiln/dsl/ir/print_cells.h>

#include <charconv>
#include <cmath>

namespace kiln::ir {

namespace {

template <class T> std::string shortest(T x, int base = 10) {
  char text[64];
  if constexpr (std::is_floating_point_v<T>)
    return {text, std::to_chars(text, text + sizeof text, x).ptr};
  else
    return {text, std::to_chars(text, text + sizeof text, x, base).ptr};
}

std::string nested(const Type& type, const Cells& cells, std::size_t axis, std::size_t& next) {
  if (axis == type.shape.size())
    return type.pointer ? "0x" + shortest(cells[next++], 16) : cell_to_string(type.dtype, cells[next++]);
  std::string text = "[";
  for (std::int64_t i = 0; i < type.shape[axis].value(); ++i)
    text += (i ? ", " : "") + nested(type, cells, axis + 1, next);
  return text + "]";
}

} // namespace

std::string cell_to_string(DType t, Cell x) {
  if (t == DType::Bool) return x ? "true" : "false";
  if (t == DType::F64) return shortest(static_cast<double>(float_of(t, x)));
  if (is_float(t)) return shortest(static_cast<float>(float_of(t, x)));
  return is_signed(t) ? shortest(static_cast<std::int64_t>(x)) : shortest(x);
}

std::string cells_to_string(const Type& type, const Cells& cells) {
  std::size_t next = 0;
  return nested(type, cells, 0, next);
}

std::string index_text(const Type& type, std::size_t linear) {
  std::vector<std::int64_t> strides = row_major_strides(extents_of(type));
  std::string text = "(";
  auto rest = static_cast<std::int64_t>(linear);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    text += (axis ? ", " : "") + std::to_string(rest / strides[axis]);
    rest %= strides[axis];
  }
  return text + ")";
}

} // namespace kiln::ir
