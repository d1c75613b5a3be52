// lower-views: turns accesses to views that the kernel makes into accesses to parameters and through
// pointers.
//
//  1. The kernel is bound. A view that is no parameter is the result of view_slice or view_of.
//  2. A slice of a parameter becomes that parameter: the begins of the slice are added to the offsets, and a
//     mask says which elements are inside of the slice. The parameter's own bounds checks stay, so that its
//     code has the fast paths of the parameter's layout class.
//  3. An access to a view of a pointer, or to a slice of one, becomes a load or store through pointers, with
//     a mask that says which elements are inside.
//  4. Afterwards no view_slice and no view_of is left.
#include <kiln/jit/passes/non_negative.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <unordered_map>

namespace kiln::passes {

using namespace ir;

namespace {

// A view that the kernel makes. Its elements are those of a parameter or of memory behind a pointer.
struct MadeView {
  Value* parameter = nullptr; // null for a view of a pointer
  Value* pointer = nullptr;
  std::vector<Value*> begins;  // null along axes that are not sliced
  std::vector<Value*> extents; // null along axes of a parameter that are not sliced
  std::vector<Value*> strides; // empty for a parameter
};

bool is_number(const Value* v, std::int64_t number) {
  return v->def && v->def->is(Opcode::Constant) && v->def->integer("value") == number;
}

class Lowering {
public:
  Lowering(const Kernel& kernel) : never_negative_(non_negative_scalars(kernel)), build_(nullptr) {}

  void run(Region& region) {
    std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
    region.ops.clear();
    for (auto& op : old) {
      for (auto& inner : op->regions)
        run(*inner);
      build_.set_region(&region);
      build_.set_location(op->loc);
      if (lower(*op))
        removed_.push_back(std::move(op)); // its results are keys of the maps until all uses are replaced
      else
        region.ops.push_back(std::move(op));
    }
  }
  void finish(Region& body) { replace_uses(body, replacements_); }

private:
  using Axes = std::vector<std::int64_t>;

  const MadeView* made(const Value* view) const {
    const auto at = views_.find(view);
    return at == views_.end() ? nullptr : &at->second;
  }

  // Whether the operation was replaced.
  bool lower(Op& op) {
    if (op.is(Opcode::ViewSlice)) return slice(op), true;
    if (op.is(Opcode::ViewOf)) return view_of(op), true;
    if (op.operands.empty() || !op.operand(0)->type.is_view()) return false;
    const MadeView* view = made(op.operand(0));
    if (!view) return false;
    if (Value* value = lowered(op, *view)) {
      if (op.num_results() > 0) replacements_[op.result()] = value;
    }
    return true;
  }

  // --- Making views ---

  Value* extent(const Value* view, std::size_t axis) {
    const MadeView* known = made(view);
    if (known && known->extents[axis]) return known->extents[axis];
    Value* parameter = known ? known->parameter : const_cast<Value*>(view);
    return fact(Opcode::ViewExtent, parameter, axis);
  }
  Value* fact(Opcode code, Value* parameter, std::size_t axis) {
    Op* op = build_.create(code, {parameter}, {Type::scalar(DType::I64)});
    op->set("axis", static_cast<std::int64_t>(axis));
    return op->result();
  }

  // Operands may have been replaced already: a bound may be the extent of another slice.
  Value* current(Value* v) const {
    for (auto at = replacements_.find(v); at != replacements_.end(); at = replacements_.find(v))
      v = at->second;
    return v;
  }

  void slice(const Op& op) {
    const Value* of = op.operand(0);
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    const auto rank = static_cast<std::size_t>(of->type.view_rank);
    Value* whole = extent(of, axis);
    MadeView view;
    if (const MadeView* known = made(of)) {
      view = *known;
    } else {
      view.parameter = op.operand(0);
      view.begins.resize(rank), view.extents.resize(rank);
    }
    Value *begin = current(op.operand(1)), *end = current(op.operand(2)), *zero = build_.index(0);
    if (!is_number(begin, 0)) {
      if (!never_negative_.contains(begin)) begin = build_.binary(Opcode::Max, begin, zero);
      begin = build_.binary(Opcode::Min, begin, whole);
      end = build_.binary(Opcode::Max, end, begin);
      Value*& before = view.begins[axis];
      before = before ? build_.binary(Opcode::Add, before, begin) : begin;
      end = build_.binary(Opcode::Min, end, whole);
      view.extents[axis] = build_.binary(Opcode::Sub, end, begin);
    } else {
      view.extents[axis] = build_.binary(Opcode::Min, build_.binary(Opcode::Max, end, zero), whole);
    }
    views_[op.result()] = std::move(view);
  }

  void view_of(const Op& op) {
    const auto rank = static_cast<std::size_t>(op.result()->type.view_rank);
    MadeView view;
    view.pointer = current(op.operand(0));
    view.begins.resize(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      view.extents.push_back(current(op.operand(static_cast<int>(1 + i))));
      view.strides.push_back(current(op.operand(static_cast<int>(1 + rank + i))));
    }
    views_[op.result()] = std::move(view);
  }

  // --- Replacing uses ---

  Value* lowered(Op& op, const MadeView& view) {
    const auto axis = static_cast<std::size_t>(op.integer("axis"));
    switch (op.code) {
    case Opcode::ViewExtent: return extent(op.operand(0), axis);
    case Opcode::ViewStride:
      return view.parameter ? fact(Opcode::ViewStride, view.parameter, axis) : view.strides[axis];
    case Opcode::ViewData: return data(op, view);
    default: return view.parameter ? on_parameter(op, view) : through_pointers(op, view);
    }
  }

  Value* data(const Op& op, const MadeView& view) {
    const Type& type = op.result()->type;
    Value* start =
        view.parameter ? build_.create(Opcode::ViewData, {view.parameter}, {type})->result() : view.pointer;
    for (std::size_t axis = 0; axis < view.begins.size(); ++axis) {
      if (!view.begins[axis]) continue;
      Value* stride = view.parameter ? fact(Opcode::ViewStride, view.parameter, axis) : view.strides[axis];
      start = moved(start, scaled(view.begins[axis], stride));
    }
    return start;
  }
  Value* moved(Value* pointer, Value* offset) {
    return build_.create(Opcode::PtrAdd, {pointer, offset}, {pointer->type})->result();
  }
  // number * stride, of the shape of the number.
  Value* scaled(Value* number, Value* stride) {
    if (is_number(stride, 1)) return number;
    if (is_number(number, 0)) return number;
    return build_.binary(Opcode::Mul, number, build_.splat(stride, number->type.shape));
  }

  static bool by_element(const Op& op) { return op.is(Opcode::ViewGather) || op.is(Opcode::ViewScatter); }
  static bool stores(const Op& op) { return op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter); }
  // The shape of the tile that an operation reads, writes or makes.
  static const Shape& shape_of(const Op& op) {
    return stores(op) ? op.stored_value()->type.shape : op.result()->type.shape;
  }

  // Repeats a tile along one axis of `shape`, or a scalar (axis -1), over the whole shape.
  Value* spread(Value* v, int axis, const Shape& shape) {
    if (axis < 0) return build_.splat(v, shape);
    for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
      if (i == axis) continue;
      Shape wider = v->type.shape;
      wider.insert(wider.begin() + i, Dim(1));
      Op* expand = build_.create(Opcode::ExpandDims, {v}, {v->type.with_shape(wider)});
      expand->set("axis", std::int64_t{i});
      v = expand->result();
    }
    return v->type.shape == shape
               ? v
               : build_.create(Opcode::Broadcast, {v}, {v->type.with_shape(shape)})->result();
  }

  // The tile's axis for each axis of the view; -1: none.
  static std::vector<int> tile_axes(const Op& op, std::size_t rank) {
    std::vector<int> result(rank, -1);
    const Axes& axes = op.integers("axes");
    for (std::size_t t = 0; t < axes.size(); ++t)
      result[static_cast<std::size_t>(axes[t])] = static_cast<int>(t);
    return result;
  }
  // 0, 1, 2, ... along an axis of the tile.
  Value* lanes(const Dim& extent) {
    Op* op = build_.create(Opcode::Arange, {}, {Type::tile(DType::I64, {extent})});
    op->set("start", std::int64_t{0});
    return op->result();
  }

  // index >= 0 && index < extent, of the shape of the index.
  Value* between(Value* index, Value* extent, bool never_negative) {
    const Shape& shape = index->type.shape;
    Value* below = build_.binary(Opcode::Lt, index, build_.splat(extent, shape));
    if (never_negative) return below;
    return build_.binary(Opcode::And, build_.binary(Opcode::Ge, index, build_.splat(build_.index(0), shape)),
                         below);
  }
  Value* both(Value* a, Value* b) { return a && b ? build_.binary(Opcode::And, a, b) : a ? a : b; }

  // Which elements of the access are inside, of the shape of the tile. Only sliced axes are tested if the
  // view is a parameter. Null: all.
  Value* inside(const Op& op, const MadeView& view) {
    const auto offsets = op.view_offsets();
    const Shape& shape = shape_of(op);
    const std::vector<int> axes = tile_axes(op, offsets.size());
    Value* mask = nullptr;
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      if (!view.extents[axis]) continue;
      Value* offset = current(offsets[axis]);
      // A sum that is too large for 64 bits becomes negative, and is then out of bounds of the parameter.
      const bool never_negative = view.parameter && never_negative_.contains(offset);
      const int t = by_element(op) ? -1 : axes[axis];
      if (t >= 0) {
        Value* lane = lanes(shape[static_cast<std::size_t>(t)]);
        Value* index = build_.binary(Opcode::Add, build_.splat(offset, lane->type.shape), lane);
        mask = both(mask, spread(between(index, view.extents[axis], never_negative), t, shape));
      } else {
        Value* one = between(offset, view.extents[axis], never_negative);
        mask = both(mask, by_element(op) ? one : spread(one, -1, shape));
      }
    }
    return mask;
  }

  // The offsets from the start of the parameter or pointer.
  std::vector<Value*> shifted(const Op& op, const MadeView& view) {
    std::vector<Value*> result;
    const auto offsets = op.view_offsets();
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      Value *offset = current(offsets[axis]), *begin = view.begins[axis];
      if (begin) offset = build_.binary(Opcode::Add, offset, build_.splat(begin, offset->type.shape));
      result.push_back(offset);
    }
    return result;
  }

  // Appends the mask and `other` of an access to its operands.
  void finish_access(const Op& op, std::vector<Value*>& operands, Value* mask) {
    if (op.mask()) {
      Value* own = current(op.mask()); // may be a scalar
      if (mask && own->type != mask->type) own = build_.splat(own, mask->type.shape);
      mask = both(mask, own);
    }
    if (mask) operands.push_back(mask);
    if (op.other()) operands.push_back(current(op.other()));
    has_mask_ = mask;
  }
  Value* create(const Op& op, Opcode code, std::vector<Value*> operands) {
    std::vector<Type> types;
    if (op.num_results() > 0) types.push_back(op.result()->type);
    Op* made = build_.create(code, std::move(operands), std::move(types));
    for (const auto& [name, value] : op.attributes())
      if (name != "axes" || made->operand(0)->type.is_view()) made->set(name, value);
    if (has_mask_) made->set("has_mask", std::int64_t{1});
    return made->num_results() > 0 ? made->result() : nullptr;
  }

  Value* on_parameter(const Op& op, const MadeView& view) {
    std::vector<Value*> operands{view.parameter}, offsets = shifted(op, view);
    if (stores(op)) operands.push_back(current(op.stored_value()));
    operands.insert(operands.end(), offsets.begin(), offsets.end());
    has_mask_ = nullptr;
    if (op.is(Opcode::ViewPtrs)) return create(op, op.code, std::move(operands));
    if (op.is(Opcode::ViewMask)) return both(create(op, op.code, std::move(operands)), inside(op, view));
    finish_access(op, operands, inside(op, view));
    return create(op, op.code, std::move(operands));
  }

  Value* through_pointers(const Op& op, const MadeView& view) {
    if (op.is(Opcode::ViewMask)) return inside(op, view);
    Value* pointers = addresses(op, view);
    if (op.is(Opcode::ViewPtrs)) return pointers;
    std::vector<Value*> operands{pointers};
    if (stores(op)) operands.push_back(current(op.stored_value()));
    finish_access(op, operands, inside(op, view));
    return create(op, stores(op) ? Opcode::Store : Opcode::Load, std::move(operands));
  }

  // The addresses of the elements. What all elements have in common is added to the pointer first.
  Value* addresses(const Op& op, const MadeView& view) {
    const std::vector<Value*> offsets = shifted(op, view);
    const Shape& shape = shape_of(op);
    const std::vector<int> axes = tile_axes(op, offsets.size());
    Value *start = view.pointer, *sum = nullptr;
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      Value* part = scaled(offsets[axis], view.strides[axis]);
      if (by_element(op)) {
        sum = sum ? build_.binary(Opcode::Add, sum, part) : part;
        continue;
      }
      start = moved(start, part);
      if (axes[axis] < 0) continue;
      const auto t = static_cast<std::size_t>(axes[axis]);
      Value* lane = spread(scaled(lanes(shape[t]), view.strides[axis]), axes[axis], shape);
      sum = sum ? build_.binary(Opcode::Add, sum, lane) : lane;
    }
    start = build_.splat(start, shape);
    return sum ? moved(start, sum) : start;
  }

  NonNegativeScalars never_negative_;
  Builder build_;
  Value* has_mask_ = nullptr;
  std::unordered_map<const Value*, MadeView> views_;
  ValueMap replacements_;
  std::vector<std::unique_ptr<Op>> removed_;
};

} // namespace

void lower_views(Kernel& kernel, const PassOptions&) {
  bool any = false;
  walk(kernel.body, [&](const Op& op) { any |= op.is(Opcode::ViewSlice) || op.is(Opcode::ViewOf); });
  if (!any) return;
  Lowering lowering(kernel);
  lowering.run(kernel.body);
  lowering.finish(kernel.body);
}

} // namespace kiln::passes
