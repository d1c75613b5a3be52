// Implements operations on tiles element by element: elementwise operations, shapes, memory, atomics and dot.
#include <kiln/dsl/ir/evaluate_tiles.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/evaluate_lookups.h>

#include <algorithm>

namespace kiln::ir {

std::vector<std::int64_t> extents_of(const Type& type) {
  std::vector<std::int64_t> extents;
  for (const Dim& d : type.shape)
    extents.push_back(d.value());
  return extents;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;)
    strides[i - 1] = strides[i] * extents[i];
  return strides;
}

namespace {

using Index = std::vector<std::int64_t>;
using Operands = std::span<const Cells* const>;

void* address_of(Cell c) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(c)); }

Cells elementwise(const Op& op, Operands in) {
  Cells out(static_cast<std::size_t>(op.result()->type.numel()));
  DType from = cell_dtype(op.operand(0)->type), to = cell_dtype(op.result()->type);
  for (std::size_t i = 0; i < out.size(); ++i) {
    Cell a = element(*in[0], i);
    switch (op.code) {
    case Opcode::Cast: out[i] = evaluate_cast(from, to, a); break;
    case Opcode::Bitcast: out[i] = evaluate_bitcast(from, to, a); break;
    case Opcode::PtrAdd:
      out[i] = a + element(*in[1], i) * static_cast<Cell>(size_of(op.operand(0)->type.dtype));
      break;
    default:
      out[i] = evaluate(op.code, from, a, in.size() > 1 ? element(*in[1], i) : 0,
                        in.size() > 2 ? element(*in[2], i) : 0);
    }
  }
  return out;
}

// Repeats the elements along axes of extent 1. (Reshape, ExpandDims and Squeeze keep the row-major order, so
// they copy.)
Cells broadcast(const Op& op, const Cells& in) {
  Index from = extents_of(op.operand(0)->type), to = extents_of(op.result()->type);
  Index strides = row_major_strides(from);
  Cells out(static_cast<std::size_t>(op.result()->type.numel()));
  for_each_index(to, [&](std::size_t i, const Index& index) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      at += from[axis] == 1 ? 0 : index[axis] * strides[axis];
    out[i] = in[static_cast<std::size_t>(at)];
  });
  return out;
}

Cells permute(const Op& op, const Cells& in) {
  Index strides = row_major_strides(extents_of(op.operand(0)->type));
  const Index& order = op.integers("order");
  Cells out(in.size());
  for_each_index(extents_of(op.result()->type), [&](std::size_t i, const Index& index) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      at += index[axis] * strides[static_cast<std::size_t>(order[axis])];
    out[i] = in[static_cast<std::size_t>(at)];
  });
  return out;
}

Cells extract(const Op& op, const Cells& in) {
  const Index from = extents_of(op.operand(0)->type);
  const auto axis = static_cast<std::size_t>(op.integer("axis"));
  const auto inner = static_cast<std::size_t>(row_major_strides(from)[axis]);
  const auto extent = static_cast<std::size_t>(from[axis]),
             at = static_cast<std::size_t>(op.integer("index"));
  Cells out(in.size() / extent);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = in[(i / inner * extent + at) * inner + i % inner];
  return out;
}

// Gives names to the words of a view.
struct ViewCells {
  const Type& type;
  const Cells& words;
  std::size_t rank() const { return static_cast<std::size_t>(type.view_rank); }
  std::int64_t extent(std::size_t axis) const { return static_cast<std::int64_t>(words[1 + axis]); }
  std::int64_t stride(std::size_t axis) const { return static_cast<std::int64_t>(words[1 + rank() + axis]); }
  bool inside(const Index& position) const {
    for (std::size_t axis = 0; axis < rank(); ++axis)
      if (position[axis] < 0 || position[axis] >= extent(axis)) return false;
    return true;
  }
  Cell address(const Index& position) const {
    Cell elements = 0; // may wrap modulo 2**64, but only for positions outside, which are not accessed
    for (std::size_t axis = 0; axis < rank(); ++axis)
      elements += static_cast<Cell>(position[axis]) * static_cast<Cell>(stride(axis));
    return words[0] + elements * static_cast<Cell>(size_of(type.dtype));
  }
};

// The part of a view along an axis. Begin and end are clamped to the view's extent.
Cells view_slice(const Op& op, Operands in) {
  ViewCells view{op.operand(0)->type, *in[0]};
  const auto axis = static_cast<std::size_t>(op.integer("axis"));
  const std::int64_t extent = view.extent(axis);
  const std::int64_t begin =
      std::min(std::max<std::int64_t>(static_cast<std::int64_t>((*in[1])[0]), 0), extent);
  const std::int64_t end = std::min(std::max(static_cast<std::int64_t>((*in[2])[0]), begin), extent);
  Cells out = *in[0];
  out[0] += static_cast<Cell>(begin) * static_cast<Cell>(view.stride(axis)) *
            static_cast<Cell>(size_of(view.type.dtype));
  out[1 + axis] = static_cast<Cell>(end - begin);
  return out;
}

Cells view_of(Operands in) {
  Cells out;
  for (const Cells* word : in)
    out.push_back((*word)[0]);
  return out;
}

// Calls visit(i, address, inside) for each element i of the tile that a view operation accesses.
template <class F> void for_each_view_element(const Op& op, Operands in, const Type& tile, F&& visit) {
  ViewCells view{op.operand(0)->type, *in[0]};
  bool stores = op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter);
  bool indexed = op.is(Opcode::ViewGather) || op.is(Opcode::ViewScatter);
  Operands offsets = in.subspan(stores ? 2 : 1, view.rank());
  const Index& axes = op.integers("axes");
  Index position(view.rank());
  for_each_index(extents_of(tile), [&](std::size_t i, const Index& index) {
    bool overflow = false;
    for (std::size_t axis = 0; axis < view.rank(); ++axis)
      position[axis] = static_cast<std::int64_t>(element(*offsets[axis], indexed ? i : 0));
    if (!indexed)
      for (std::size_t a = 0; a < axes.size(); ++a) {
        std::int64_t& p = position[static_cast<std::size_t>(axes[a])];
        overflow |= __builtin_add_overflow(p, index[a], &p);
      }
    visit(i, view.address(position), !overflow && view.inside(position));
  });
}

// The optional trailing operands of a memory operation.
struct Optional {
  const Cells* mask = nullptr;
  const Cells* other = nullptr;
  Optional(const Op& op, Operands in) {
    std::size_t last = in.size();
    if (op.integer("has_other")) other = in[--last];
    if (op.integer("has_mask")) mask = in[--last];
  }
  bool active(std::size_t i) const { return !mask || element(*mask, i); }
  Cell otherwise(std::size_t i) const { return other ? element(*other, i) : 0; }
};

Cells access_view(const Op& op, Operands in) {
  Optional optional(op, in);
  DType t = op.operand(0)->type.dtype;
  bool stores = op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter);
  const Type& tile = stores ? op.operand(1)->type : op.result()->type;
  Cells out(stores ? 0 : static_cast<std::size_t>(tile.numel()));
  for_each_view_element(op, in, tile, [&](std::size_t i, Cell address, bool inside) {
    bool active = inside && optional.active(i);
    if (op.is(Opcode::ViewMask))
      out[i] = inside;
    else if (op.is(Opcode::ViewPtrs))
      out[i] = address;
    else if (stores && active)
      store_cell(t, address_of(address), element(*in[1], i));
    else if (!stores)
      out[i] = active ? load_cell(t, address_of(address)) : optional.otherwise(i);
  });
  return out;
}

Cells access_pointers(const Op& op, Operands in) {
  Optional optional(op, in);
  const Type& pointers = op.operand(0)->type;
  bool stores = op.is(Opcode::Store);
  auto numel = static_cast<std::size_t>(stores ? op.operand(1)->type.numel() : op.result()->type.numel());
  Cells out(stores ? 0 : numel);
  for (std::size_t i = 0; i < numel; ++i) {
    if (stores && optional.active(i))
      store_cell(pointers.dtype, address_of(element(*in[0], i)), element(*in[1], i));
    else if (!stores)
      out[i] = optional.active(i) ? load_cell(pointers.dtype, address_of(element(*in[0], i)))
                                  : optional.otherwise(i);
  }
  return out;
}

struct AtomicKind {
  std::string_view name;
  Opcode code;
};
constexpr AtomicKind atomic_kinds[] = {{"add", Opcode::Add}, {"min", Opcode::Min}, {"max", Opcode::Max},
                                       {"and", Opcode::And}, {"or", Opcode::Or},   {"xor", Opcode::Xor}};

Cell updated(const Op& op, DType t, Cell old, Cell x) {
  std::string_view kind = op.text("kind");
  for (const AtomicKind& k : atomic_kinds)
    if (k.name == kind) return evaluate(k.code, t, old, x);
  internal_check(kind == "xchg", [&] { return "unknown kind of atomic: " + std::string(kind); });
  return x;
}

// Programs run one after the other, so a plain read followed by a plain write is atomic here.
Cells atomic(const Op& op, Operands in) {
  Optional optional(op, in);
  DType t = op.operand(0)->type.dtype;
  Cells out(static_cast<std::size_t>(op.result()->type.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!optional.active(i)) continue;
    void* at = address_of(element(*in[0], i));
    Cell old = load_cell(t, at), x = element(*in[1], i);
    out[i] = old;
    if (op.is(Opcode::AtomicRmw))
      store_cell(t, at, updated(op, t, old, x));
    else if (old == x) // compares bits, as the hardware does
      store_cell(t, at, element(*in[2], i));
  }
  return out;
}

Cells dot(const Op& op, Operands in) {
  const Type& a_type = op.operand(0)->type;
  const Type& result = op.result()->type;
  Index extents = extents_of(result);
  std::int64_t m = extents[extents.size() - 2], n = extents.back(), k = a_type.shape.back().value();
  DType t = a_type.dtype, b_type = op.operand(1)->type.dtype, to = result.dtype;
  Cells out(static_cast<std::size_t>(result.numel()));
  // Each operand is converted once, because a conversion takes longer than a multiplication.
  std::vector<double> a(in[0]->size()), b(in[1]->size());
  if (is_float(to)) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<double>(float_of(t, (*in[0])[i]));
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<double>(float_of(b_type, (*in[1])[i]));
  }
  for_each_index(extents, [&](std::size_t i, const Index& index) {
    std::size_t batch = i / static_cast<std::size_t>(m * n);
    auto a_at =
        static_cast<std::size_t>(index[index.size() - 2] * k) + batch * static_cast<std::size_t>(m * k);
    auto b_at = static_cast<std::size_t>(index.back()) + batch * static_cast<std::size_t>(k * n);
    if (is_float(to)) {
      double sum = in.size() > 2 ? static_cast<double>(float_of(to, (*in[2])[i])) : 0;
      for (std::int64_t j = 0; j < k; ++j, ++a_at, b_at += static_cast<std::size_t>(n))
        sum += a[a_at] * b[b_at];
      out[i] = cell_of_float(to, sum);
    } else {
      Cell sum = in.size() > 2 ? (*in[2])[i] : 0;
      for (std::int64_t j = 0; j < k; ++j, ++a_at, b_at += static_cast<std::size_t>(n))
        sum += (*in[0])[a_at] * (*in[1])[b_at];
      out[i] = cell_of_integer(to, static_cast<std::int64_t>(sum));
    }
  });
  return out;
}

} // namespace

Cells evaluate_tiles(const Op& op, std::span<const Cells* const> in) {
  if (is_elementwise(op.code)) return elementwise(op, in);
  switch (op.code) {
  case Opcode::Constant: return {constant_cell(op)};
  case Opcode::DimSize: return {static_cast<Cell>(std::get<Dim>(*op.find("dim")).value())};
  case Opcode::ViewData: return {(*in[0])[0]};
  case Opcode::ViewExtent: return {(*in[0])[static_cast<std::size_t>(1 + op.integer("axis"))]};
  case Opcode::ViewStride:
    return {(*in[0])[static_cast<std::size_t>(1 + op.operand(0)->type.view_rank + op.integer("axis"))]};
  case Opcode::ViewSlice: return view_slice(op, in);
  case Opcode::ViewOf: return view_of(in);
  case Opcode::Arange: {
    Cells out(static_cast<std::size_t>(op.result()->type.numel()));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = cell_of_integer(op.result()->type.dtype, op.integer("start") + static_cast<std::int64_t>(i));
    return out;
  }
  case Opcode::Splat: return Cells(static_cast<std::size_t>(op.result()->type.numel()), (*in[0])[0]);
  case Opcode::Broadcast: return broadcast(op, *in[0]);
  case Opcode::ExpandDims:
  case Opcode::Squeeze:
  case Opcode::Reshape: return *in[0];
  case Opcode::Extract: return extract(op, *in[0]);
  case Opcode::Permute: return permute(op, *in[0]);
  case Opcode::Gather: return evaluate_gather(op, *in[0], *in[1]);
  case Opcode::Histogram: return evaluate_histogram(op, *in[0], op.integer("has_mask") ? in[1] : nullptr);
  case Opcode::ViewLoad:
  case Opcode::ViewStore:
  case Opcode::ViewGather:
  case Opcode::ViewScatter:
  case Opcode::ViewPtrs:
  case Opcode::ViewMask: return access_view(op, in);
  case Opcode::Load:
  case Opcode::Store: return access_pointers(op, in);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas: return atomic(op, in);
  case Opcode::Dot: return dot(op, in);
  default: internal_error("the interpreter does not implement " + std::string(name(op.code)));
  }
}

} // namespace kiln::ir
