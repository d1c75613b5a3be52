// Implements gathers, sorts and histograms, one line along the axis after the other.
#include <kiln/dsl/ir/evaluate_lookups.h>

#include <kiln/dsl/ir/sort_order.h>

#include <algorithm>
#include <numeric>

namespace kiln::ir {

namespace {

// The elements of a tile along one axis: element k of line (o, i) is number (o * length + k) * inner + i.
struct Lines {
  std::size_t outer = 1, length = 1, inner = 1;
  Lines(const Type& type, std::int64_t axis) {
    for (std::int64_t a = 0; a < type.rank(); ++a)
      (a < axis    ? outer
       : a == axis ? length
                   : inner) *= static_cast<std::size_t>(type.shape[static_cast<std::size_t>(a)].value());
  }
  std::size_t number(std::size_t o, std::size_t k, std::size_t i) const {
    return (o * length + k) * inner + i;
  }
};

} // namespace

Cells evaluate_gather(const Op& op, const Cells& x, const Cells& indices) {
  const Lines from(op.operand(0)->type, op.integer("axis")), to(op.result()->type, op.integer("axis"));
  Cells out(indices.size());
  for (std::size_t o = 0; o < to.outer; ++o)
    for (std::size_t k = 0; k < to.length; ++k)
      for (std::size_t i = 0; i < to.inner; ++i) {
        const std::size_t at = to.number(o, k, i);
        if (const Cell index = indices[at]; index < from.length) // a negative index is a large cell
          out[at] = x[from.number(o, static_cast<std::size_t>(index), i)];
      }
  return out;
}

std::vector<Cells> evaluate_sort(const Op& op, const Cells& x) {
  const Type& type = op.operand(0)->type;
  const Lines from(type, op.integer("axis")), to(op.result()->type, op.integer("axis"));
  const bool descending = op.integer("descending") != 0;
  const auto count = static_cast<std::size_t>(op.result()->type.numel());
  std::vector<Cells> out(2, Cells(count));
  std::vector<std::size_t> order(from.length);
  for (std::size_t o = 0; o < from.outer; ++o)
    for (std::size_t i = 0; i < from.inner; ++i) {
      auto key = [&](std::size_t k) { return sort_key(type.dtype, x[from.number(o, k, i)]); };
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return descending ? key(a) > key(b) : key(a) < key(b);
      });
      for (std::size_t k = 0; k < to.length; ++k) {
        out[0][to.number(o, k, i)] = x[from.number(o, order[k], i)];
        out[1][to.number(o, k, i)] = order[k];
      }
    }
  return out;
}

Cells evaluate_histogram(const Op& op, const Cells& x, const Cells* mask) {
  Cells out(static_cast<std::size_t>(op.result()->type.numel()));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] < out.size() && (!mask || element(*mask, i))) ++out[static_cast<std::size_t>(x[i])];
  return out;
}

} // namespace kiln::ir
