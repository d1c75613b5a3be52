// tile-accesses: turns gathers and scatters into tile accesses, and drops masks that bounds checks imply.
//
//  1. A gather or scatter whose indices are scalars, or a scalar plus an arange along an axis of the tile,
//     becomes a load or store of a tile: a.at(expand<1>(m + arange(BM)), expand<0>(k + arange(BK))) becomes
//     a.tile(m, k). Code generators group, pack and vectorise tiles.
//  2. No two indices vary along one axis (a diagonal). An axis along which no index varies is broadcast after
//     a load; the load then has no mask and no `other` of the tile's shape. In a scatter such an axis has
//     extent 1, because elements with the same address are written in their order.
//  3. A mask of an access through a view loses the conditions that an index is below the extent of its axis,
//     because elements out of bounds are masked off anyway (dsl/SEMANTICS.md). Extents that the kernel
//     expects to be equal count as one. If a conjunction is broadcast, all of its conditions are dropped or
//     none.
#include <kiln/jit/passes/axes.h>
#include <kiln/jit/passes/index_tiles.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace kiln::passes {

namespace {

using namespace ir;

bool is_by_element(const Op& op) { return op.is(Opcode::ViewGather) || op.is(Opcode::ViewScatter); }
bool is_store(const Op& op) { return op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter); }

const Type& tile_of(const Op& op) { return is_store(op) ? op.stored_value()->type : op.result()->type; }

// The index along each axis of the view. Empty if `op` accesses no view, or if an index is no index tile.
std::vector<IndexTile> indices_of(const Op& op) {
  std::vector<IndexTile> indices;
  if (is_by_element(op)) {
    for (const Value* index : op.view_offsets()) {
      auto known = index_tile(index);
      if (!known) return {};
      indices.push_back(*known);
    }
  } else if (op.is(Opcode::ViewLoad) || op.is(Opcode::ViewStore)) {
    for (const Value* offset : op.view_offsets())
      indices.push_back(scalar_index(offset));
    const auto& axes = op.integers("axes");
    for (std::size_t t = 0; t < axes.size(); ++t)
      indices[static_cast<std::size_t>(axes[t])].axis = static_cast<int>(t);
  }
  return indices;
}

// Finds extents that `expects` requires to be equal. An extent is a view and an axis.
class EqualExtents {
public:
  explicit EqualExtents(const Region& body) {
    for (const auto& op : body.ops) {
      if (!op->is(Opcode::Expects)) continue;
      const Op* condition = op->operand(0)->def;
      if (!condition || !condition->is(Opcode::Eq)) continue;
      auto x = extent(condition->operand(0)), y = extent(condition->operand(1));
      if (x && y) join(*x, *y);
    }
  }

  // Whether `v` is the extent of the view along the axis, or an extent that equals it.
  bool is(const Value* v, const Value* view, std::int64_t axis) const {
    auto found = extent(v);
    return found && of(*found) == of({view, axis});
  }

private:
  using Extent = std::pair<const Value*, std::int64_t>;
  static std::optional<Extent> extent(const Value* v) {
    if (!v->def || !v->def->is(Opcode::ViewExtent)) return std::nullopt;
    return Extent(v->def->operand(0), v->def->integer("axis"));
  }
  // The representative of all extents that equal `e`.
  Extent of(const Extent& e) const {
    auto at = same_.find(e);
    return at == same_.end() ? e : at->second;
  }
  void join(const Extent& x, const Extent& y) {
    const Extent kept = of(x), gone = of(y);
    for (auto& [e, representative] : same_)
      if (representative == gone) representative = kept;
    same_[gone] = kept;
  }

  std::map<Extent, Extent> same_;
};

// Simplifies the mask of one access (rule 3).
class MaskReader {
  static constexpr int deepest = 12; // nested conjunctions

public:
  MaskReader(const Op& access, std::vector<IndexTile> indices, const EqualExtents& extents)
      : view_(access.operand(0)), indices_(std::move(indices)), extents_(&extents) {
    for (int t = 0; t < tile_of(access).rank(); ++t)
      axes_.push_back(t);
  }

  // Returns the part of a mask of the shape of the tile that is not implied; null if all of it is implied.
  Value* rest(Value* mask, Builder& builder, int depth = 0) const {
    if (!mask->def || !mask->def->is(Opcode::And)) return implied(mask, axes_, depth) ? nullptr : mask;
    if (depth > deepest) return mask;
    Value *x = rest(mask->def->operand(0), builder, depth + 1),
          *y = rest(mask->def->operand(1), builder, depth + 1);
    if (!x || !y) return x ? x : y;
    const bool same = x == mask->def->operand(0) && y == mask->def->operand(1);
    return same ? mask : builder.binary(Opcode::And, x, y);
  }

private:
  // Whether the bounds check implies the mask. `axes[t]` is the axis of the mask that corresponds to axis t
  // of the tile; -1: none.
  bool implied(const Value* mask, const std::vector<int>& axes, int depth) const {
    const Op* op = mask->def;
    if (!op || depth > deepest) return false;
    if (maps_axes(*op)) {
      std::vector<int> inner = axes;
      for (int& axis : inner)
        if (axis >= 0) axis = operand_axis(*op, axis);
      return implied(op->operand(0), inner, depth + 1);
    }
    switch (op->code) {
    case Opcode::And:
      return implied(op->operand(0), axes, depth + 1) && implied(op->operand(1), axes, depth + 1);
    case Opcode::Lt: return below_extent(op->operand(0), op->operand(1), axes);
    case Opcode::Gt: return below_extent(op->operand(1), op->operand(0), axes);
    default: return false;
    }
  }

  // Whether the condition index_value < bound says that an index of the access is below the extent of its
  // axis. Where the condition varies along fewer axes than the index, it is about the first element along the
  // others: if that is not below the extent, no element is.
  bool below_extent(const Value* index_value, const Value* bound, const std::vector<int>& axes) const {
    auto compared = index_tile(index_value);
    if (!compared || !bound->def || !bound->def->is(Opcode::Splat)) return false;
    for (std::size_t axis = 0; axis < indices_.size(); ++axis) {
      IndexTile index = indices_[axis];
      if (index.axis >= 0) index.axis = axes[static_cast<std::size_t>(index.axis)];
      if (*compared == index && extents_->is(bound->def->operand(0), view_, static_cast<std::int64_t>(axis)))
        return true;
    }
    return false;
  }

  const Value* view_;
  std::vector<IndexTile> indices_;
  const EqualExtents* extents_;
  std::vector<int> axes_;
};

class Rewriter {
public:
  explicit Rewriter(const EqualExtents& extents) : extents_(&extents) {}

  void run(Region& region) {
    std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
    region.ops.clear();
    Builder builder(&region);
    for (auto& op : old) {
      for (auto& inner : op->regions)
        run(*inner);
      builder.set_location(op->loc);
      if (auto indices = indices_of(*op); !indices.empty()) {
        drop_mask(*op, indices, builder);
        if (is_by_element(*op) && form_tile(*op, indices, builder)) {
          removed_.push_back(std::move(op)); // its result is a key of the map until all uses are replaced
          continue;
        }
      }
      builder.insert(std::move(op));
    }
  }
  void finish(Region& body) { replace_uses(body, replacements_); }

private:
  void drop_mask(Op& op, const std::vector<IndexTile>& indices, Builder& builder) const {
    if (!op.mask()) return;
    auto at = op.operands.end() - 1 - op.integer("has_other");
    if (Value* rest = MaskReader(op, indices, *extents_).rest(*at, builder))
      *at = rest;
    else
      op.operands.erase(at), op.erase("has_mask");
  }

  // Inserts the tile access that replaces `op`. False if `op` is none (rules 1 and 2).
  bool form_tile(const Op& op, const std::vector<IndexTile>& indices, Builder& builder) {
    const Type& tile = tile_of(op);
    std::vector<std::int64_t> axes;   // the view's axes along which an index varies
    std::vector<std::int64_t> order;  // the tile's axes that correspond to them
    std::vector<std::int64_t> unused; // the other axes of the tile
    for (std::size_t a = 0; a < indices.size(); ++a) {
      if (indices[a].axis < 0) continue;
      axes.push_back(static_cast<std::int64_t>(a));
      order.push_back(indices[a].axis);
    }
    bool repeats = false;
    for (int t = 0; t < tile.rank(); ++t) {
      const auto times = std::count(order.begin(), order.end(), t);
      if (times > 1) return false;
      if (times == 1) continue;
      unused.push_back(t);
      repeats |= !tile.shape[static_cast<std::size_t>(t)].is_one();
    }
    const bool store = is_store(op);
    if (repeats && (store || op.mask() || (op.other() && op.other()->type.is_tile()))) return false;

    // From the shape of `op` to that of the view's tile: unused axes are removed, and the others are sorted.
    Shape shape;
    for (std::int64_t t : order)
      shape.push_back(tile.shape[static_cast<std::size_t>(t)]);
    for (std::int64_t& t : order)
      t -= std::count_if(unused.begin(), unused.end(), [&](std::int64_t u) { return u < t; });
    auto to_tile = [&](Value* v) {
      if (!v->type.is_tile()) return v;
      for (std::size_t i = unused.size(); i-- > 0;)
        v = squeezed(v, unused[i], builder);
      return permuted(v, order, builder);
    };

    std::vector<Value*> operands{op.operand(0)};
    if (store) operands.push_back(to_tile(op.stored_value()));
    for (const IndexTile& index : indices)
      operands.push_back(offset_of(index, builder));
    if (op.mask()) operands.push_back(to_tile(op.mask()));
    if (op.other()) operands.push_back(to_tile(op.other()));
    Op* access = builder.create(store ? Opcode::ViewStore : Opcode::ViewLoad, std::move(operands),
                                store ? std::vector<Type>() : std::vector<Type>{tile.with_shape(shape)});
    for (const auto& [name, value] : op.attributes())
      access->set(name, value);
    access->set("axes", axes);
    if (store) return true;

    std::vector<std::int64_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    Value* v = permuted(access->result(), back, builder);
    for (std::int64_t t : unused)
      v = expanded(v, t, builder);
    replacements_[op.result()] = v->type == tile ? v : builder.broadcast(v, tile.shape);
    return true;
  }

  static Value* offset_of(const IndexTile& index, Builder& builder) {
    Value* offset = const_cast<Value*>(index.offset);
    if (!offset) return builder.index(index.start);
    return index.start == 0 ? offset : builder.binary(Opcode::Add, offset, builder.index(index.start));
  }

  static Value* moved(Opcode code, Value* v, Shape shape, std::string_view attribute, Attribute value,
                      Builder& builder) {
    Op* op = builder.create(code, {v}, {v->type.with_shape(std::move(shape))});
    op->set(attribute, std::move(value));
    return op->result();
  }
  static Value* squeezed(Value* v, std::int64_t axis, Builder& builder) {
    Shape shape = v->type.shape;
    shape.erase(shape.begin() + axis);
    return moved(Opcode::Squeeze, v, shape, "axis", axis, builder);
  }
  static Value* expanded(Value* v, std::int64_t axis, Builder& builder) {
    Shape shape = v->type.shape;
    shape.insert(shape.begin() + axis, Dim(1));
    return moved(Opcode::ExpandDims, v, shape, "axis", axis, builder);
  }
  static Value* permuted(Value* v, const std::vector<std::int64_t>& order, Builder& builder) {
    if (std::is_sorted(order.begin(), order.end())) return v;
    Shape shape;
    for (std::int64_t axis : order)
      shape.push_back(v->type.shape[static_cast<std::size_t>(axis)]);
    return moved(Opcode::Permute, v, shape, "order", order, builder);
  }

  const EqualExtents* extents_;
  ValueMap replacements_;
  std::vector<std::unique_ptr<Op>> removed_;
};

} // namespace

void tile_accesses(Kernel& kernel, const PassOptions&) {
  const EqualExtents extents(kernel.body);
  Rewriter rewriter(extents);
  rewriter.run(kernel.body);
  rewriter.finish(kernel.body);
}

} // namespace kiln::passes
