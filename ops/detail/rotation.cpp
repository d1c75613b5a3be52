// Checks the options of rotary embedding, and splits heads into pairs.
#include <kiln/ops/detail/rotation.h>

#include <kiln/ops/detail/axes.h>

#include <cmath>

namespace kiln::ops::detail {

RotaryParts split_heads(const Array& x, RotaryPairs pairs, std::int64_t width) {
  RotaryParts parts{x, x, x};
  const int last = x.rank - 1;
  const std::int64_t stride = x.strides[last];
  parts.first.extents[last] = parts.second.extents[last] = width / 2;
  parts.rest.extents[last] -= width;
  advance(parts.rest, width * stride);
  if (pairs == RotaryPairs::halves) {
    advance(parts.second, width / 2 * stride);
  } else {
    parts.first.strides[last] = parts.second.strides[last] = 2 * stride;
    advance(parts.second, stride);
  }
  return parts;
}

std::int64_t check_rotary(const Checks& check, const RotaryOptions& options, std::int64_t head_size) {
  const std::int64_t width = options.width ? options.width : head_size;
  check.that(width >= 0 && width % 2 == 0 && width <= head_size,
             "the width that is rotated must be even and at most the head size; set .width");
  check.that(options.cos.given() == options.sin.given(), "cos and sin are one table each; give both or none");
  if (options.cos.given()) {
    for (const Argument& table : {Argument{"cos", options.cos.array()}, {"sin", options.sin.array()}}) {
      check.floats(table);
      check.rank(table, 2);
    }
    check.same_extents({"cos", options.cos.array()}, {"sin", options.sin.array()});
    check.equal("the columns of cos and half of the width that is rotated", options.cos.array().extents[1],
                width / 2);
  } else {
    check.that(std::isfinite(options.theta) && options.theta > 0, "theta must be finite and above 0");
  }
  return width;
}

void add_rotation(OpArguments& list, const RotaryOptions& options, std::int64_t width, DType compute,
                  double direction) {
  if (options.cos.given()) {
    list.add(options.cos);
    list.add(options.sin);
  } else {
    list.add({DType::F64, -2 * std::log2(options.theta) / static_cast<double>(width)});
  }
  list.add({compute, direction});
}

} // namespace kiln::ops::detail
