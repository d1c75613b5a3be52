// check-bounds: asserts of every access by index, to memory or to a tile, that its indices are in bounds.
// Runs with KILN_DEBUG=1.
//
//  1. Only elements that are not masked off are checked, and whose indices were read inside of their views. A
//     tile of indices that overlaps the edge of its view holds zeros there, or `other`, and what is computed
//     from these is not an index of the kernel (lanes_inside.h).
//  2. Tiles of a view (view_load, view_store) are not checked, because they may overlap the edge of the view.
//     An access without axes reads or writes a single element, and is checked. So are atomics on elements of
//     a view, which the language records as pointers and a mask that is true in bounds.
//  3. Indices that are computed from offsets, arange, extents and parameters alone are not checked, because
//     they may overlap the edge as tiles do. Indices that were read from memory, or that a loop carries, may
//     be wrong, and are checked.
//  4. A read with `other` defines the elements that are out of bounds, and is not checked.
//  5. Indices into tiles are checked wherever they come from: a tile has no edge that they may overlap.
//  6. A read is checked where its result is used, in the lanes that are used there (deferred_checks.h): lanes
//     that a mask of a store or the condition of a select excludes may have any index.
//  7. The access itself stays, so that what it does after a failed check is still defined.
//  8. Each bound of each axis has an assert of its own, whose condition is one comparison. The error shows
//     the index and the bound.
#include <kiln/jit/passes/deferred_checks.h>
#include <kiln/jit/passes/lanes_inside.h>
#include <kiln/jit/passes/passes.h>

#include <span>
#include <string>

#include <unordered_map>

namespace kiln::passes {

using namespace ir;

namespace {

// Whether a value depends, or may depend, on the contents of memory (rule 3).
class DataDependence {
public:
  bool of(const Value* value) {
    auto [at, fresh] = known_.try_emplace(value, false);
    if (!fresh) return at->second;
    const bool depends = find(*value);
    return known_[value] = depends;
  }

private:
  bool find(const Value& value) {
    if (!value.def) {
      const Op* loop = value.region ? value.region->parent : nullptr;
      return loop && !(loop->is(Opcode::For) && value.index == 0);
    }
    switch (value.def->code) {
    case Opcode::ViewLoad:
    case Opcode::ViewGather:
    case Opcode::Load:
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::For:
    case Opcode::While:
    case Opcode::If: return true;
    default:
      for (const Value* operand : value.def->operands)
        if (of(operand)) return true;
      return false;
    }
  }
  std::unordered_map<const Value*, bool> known_;
};

bool is_element_access(const Op& op) {
  if (op.is(Opcode::ViewGather) || op.is(Opcode::ViewScatter)) return true;
  return (op.is(Opcode::ViewLoad) || op.is(Opcode::ViewStore)) && op.integers("axes").empty();
}

// The elements that an atomic on a view accesses: see emit_view_mask in dsl/detail/emit.cpp.
struct AtomicAccess {
  Value* view = nullptr; // null: pointers that the kernel computes
  std::vector<Value*> indices;
  Value* mask = nullptr; // the mask that the kernel gives
};

const Op* defined_by(const Value* value, Opcode code) {
  return value->def && value->def->is(code) ? value->def : nullptr;
}

// The view whose extent along `axis` is `value`, or is splat to it; null if there is none.
Value* extent_of_view(const Value* value, int axis) {
  if (const Op* splat = defined_by(value, Opcode::Splat)) value = splat->operand(0);
  const Op* extent = defined_by(value, Opcode::ViewExtent);
  return extent && extent->integer("axis") == axis ? extent->operand(0) : nullptr;
}

// Matches index >= 0 && index < extent for all axes up to `axis`. False if `mask` is anything else.
bool match_bounds_check(const Value* mask, int axis, AtomicAccess& access) {
  const Op* both = defined_by(mask, Opcode::And);
  if (!both) return false;
  if (axis > 0) {
    if (!match_bounds_check(both->operand(0), axis - 1, access)) return false;
    both = defined_by(both->operand(1), Opcode::And);
    if (!both) return false;
  }
  const Op* low = defined_by(both->operand(0), Opcode::Ge);
  const Op* high = defined_by(both->operand(1), Opcode::Lt);
  if (!low || !high || low->operand(0) != high->operand(0)) return false;
  Value* view = extent_of_view(high->operand(1), axis);
  if (!view || (access.view && access.view != view)) return false;
  access.view = view;
  access.indices.push_back(low->operand(0));
  return true;
}

// The view whose data the pointers are computed from; null if there is none.
const Value* view_of_pointers(const Value* pointers) {
  const Op* sum = defined_by(pointers, Opcode::PtrAdd);
  if (!sum) return nullptr;
  const Value* start = sum->operand(0);
  if (const Op* splat = defined_by(start, Opcode::Splat)) start = splat->operand(0);
  const Op* data = defined_by(start, Opcode::ViewData);
  return data ? data->operand(0) : nullptr;
}

// Matches the mask of a single element, which is that of a tile without axes.
bool match_single(const Value* mask, AtomicAccess& access) {
  const Op* in_view = defined_by(mask, Opcode::ViewMask);
  if (!in_view || !in_view->integers("axes").empty()) return false;
  access.view = in_view->operand(0);
  for (Value* offset : in_view->view_offsets())
    access.indices.push_back(offset);
  return true;
}

AtomicAccess atomic_access(const Op& op) {
  AtomicAccess single;
  if (!op.mask()) return {};
  if (match_single(op.mask(), single)) return single;
  const Op* masked = defined_by(op.mask(), Opcode::And);
  if (masked && match_single(masked->operand(0), single)) {
    single.mask = masked->operand(1);
    return single;
  }
  const Value* view = view_of_pointers(op.operand(0));
  if (!view) return {};
  const int last = view->type.view_rank - 1;
  AtomicAccess access;
  if (match_bounds_check(op.mask(), last, access) && access.view == view) return access;
  const Op* both = defined_by(op.mask(), Opcode::And);
  access = {};
  if (!both || !match_bounds_check(both->operand(0), last, access) || access.view != view) return {};
  access.mask = both->operand(1);
  return access;
}

// How an error names a view.
std::string name_of(const Value* view) {
  if (view->def && view->def->is(Opcode::ViewSlice)) return "a slice of " + name_of(view->def->operand(0));
  if (view->def) return "a view of a pointer";
  return view->name ? std::string(view->name) : "parameter " + std::to_string(view->index + 1);
}

// The lanes in which the indices mean something: those of the mask, where all indices were read inside of
// their views. Null if they are all.
Value* meaningful(Builder& build, std::span<Value* const> indices, Value* mask) {
  LanesInside lanes(build);
  for (const Value* index : indices)
    if (Value* inside = lanes.of(index)) mask = mask ? build.binary(Opcode::And, mask, inside) : inside;
  return mask;
}

std::vector<IndexCheck> checks_of(Builder& build, DataDependence& data, const char* what, Value* view,
                                  std::span<Value* const> indices) {
  std::vector<IndexCheck> checks;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (!data.of(indices[axis])) continue;
    Op* extent = build.create(Opcode::ViewExtent, {view}, {Type::scalar(DType::I64)});
    extent->set("axis", static_cast<std::int64_t>(axis));
    checks.push_back({indices[axis], extent->result(),
                      std::string(what) + " by index lies outside the view (" + name_of(view) +
                          ") along axis " + std::to_string(axis) + " (mask it off or fix the index)"});
  }
  return checks;
}

// An index into a tile is checked wherever it comes from, because a tile has no edge that it may overlap.
IndexCheck check_in_tile(Builder& build, const Op& gather) {
  Value* index = gather.operand(1);
  const std::int64_t axis = gather.integer("axis");
  const std::int64_t extent = gather.operand(0)->type.shape[static_cast<std::size_t>(axis)].value();
  return {index, build.constant(index->type.dtype, extent),
          "an index of gather, take or narrow lies outside the tile along axis " + std::to_string(axis) +
              " (fix the index)"};
}

class BoundsChecker {
public:
  void run(Region& region) {
    std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
    region.ops.clear();
    Builder build(&region);
    for (auto& op : old) {
      for (const auto& inner : op->regions)
        run(*inner);
      build.set_location(op->loc);
      deferred_.before(build, *op);
      check_write(build, *op);
      Op& placed = *build.insert(std::move(op));
      deferred_.after(build, placed);
      check_read(build, placed);
    }
  }

private:
  void check_write(Builder& build, const Op& op) {
    AtomicAccess at;
    const char* what = "a write";
    if (op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas)) {
      at = atomic_access(op);
      what = "an atomic";
    } else if (is_element_access(op) && (op.is(Opcode::ViewScatter) || op.is(Opcode::ViewStore))) {
      const auto indices = op.view_offsets();
      at = {op.operand(0), {indices.begin(), indices.end()}, op.mask()};
    }
    if (!at.view) return;
    Value* mask = meaningful(build, at.indices, at.mask);
    for (const IndexCheck& check : checks_of(build, data_, what, at.view, at.indices))
      assert_index(build, check, mask);
  }

  void check_read(Builder& build, const Op& op) {
    if (op.is(Opcode::Gather)) {
      Value* index = op.operand(1);
      deferred_.defer(op, {check_in_tile(build, op)}, meaningful(build, {&index, 1}, nullptr));
    } else if ((op.is(Opcode::ViewGather) || op.is(Opcode::ViewLoad)) && is_element_access(op) &&
               !op.other()) {
      std::vector<IndexCheck> checks = checks_of(build, data_, "a read", op.operand(0), op.view_offsets());
      if (!checks.empty())
        deferred_.defer(op, std::move(checks), meaningful(build, op.view_offsets(), op.mask()));
    }
  }

  DataDependence data_;
  DeferredChecks deferred_;
};

} // namespace

void check_bounds(Kernel& kernel, const PassOptions&) { BoundsChecker().run(kernel.body); }

} // namespace kiln::passes
