// Defines the table of attributes and looks up the rules of an operation.
#include <kiln/dsl/ir/attributes.h>

#include <algorithm>
#include <array>

namespace kiln::ir {

namespace {
constexpr bool required = true, optional = false;
constexpr std::string_view rmw_kinds[] = {"add", "min", "max", "and", "or", "xor", "xchg"};
constexpr std::string_view orders[] = {"relaxed", "acquire", "release", "acq_rel"};
constexpr std::string_view scopes[] = {"cta", "gpu", "sys"};
constexpr std::string_view precisions[] = {"ieee", "tf32"};
constexpr std::string_view sum_orders[] = {"any", "fixed"};

// The rules are sorted by operation, so that attributes_of can search them.
constexpr auto rules = [] {
  using enum AttributeKind;
  return std::to_array<AttributeRule>({
      {Opcode::Constant, "value", Integer, optional},
      {Opcode::Constant, "value", Float, optional},
      {Opcode::DimSize, "dim", Dimension, required},
      {Opcode::ProgramId, "axis", Integer, required},
      {Opcode::NumPrograms, "axis", Integer, required},
      {Opcode::ProgramTile, "axes", Integers, optional},
      {Opcode::ProgramTile, "dims", Shape, required},
      {Opcode::ViewExtent, "axis", Integer, required},
      {Opcode::ViewStride, "axis", Integer, required},
      {Opcode::ViewSlice, "axis", Integer, required},
      {Opcode::Arange, "start", Integer, required},
      {Opcode::ExpandDims, "axis", Integer, required},
      {Opcode::Squeeze, "axis", Integer, required},
      {Opcode::Extract, "axis", Integer, required},
      {Opcode::Extract, "index", Integer, required},
      {Opcode::Permute, "order", Integers, required},
      {Opcode::Gather, "axis", Integer, required},
      {Opcode::Sort, "axis", Integer, required},
      {Opcode::Sort, "descending", Integer, optional},
      {Opcode::Histogram, "has_mask", Integer, optional},
      {Opcode::ViewLoad, "axes", Integers, required},
      {Opcode::ViewLoad, "cache", Text, optional},
      {Opcode::ViewLoad, "has_mask", Integer, optional},
      {Opcode::ViewLoad, "has_other", Integer, optional},
      {Opcode::ViewStore, "axes", Integers, required},
      {Opcode::ViewStore, "has_mask", Integer, optional},
      {Opcode::ViewGather, "has_mask", Integer, optional},
      {Opcode::ViewGather, "has_other", Integer, optional},
      {Opcode::ViewScatter, "has_mask", Integer, optional},
      {Opcode::ViewPtrs, "axes", Integers, required},
      {Opcode::ViewMask, "axes", Integers, required},
      {Opcode::Load, "align", Integer, optional},
      {Opcode::Load, "cache", Text, optional},
      {Opcode::Load, "has_mask", Integer, optional},
      {Opcode::Load, "has_other", Integer, optional},
      {Opcode::Store, "cache", Text, optional},
      {Opcode::Store, "has_mask", Integer, optional},
      {Opcode::AtomicRmw, "has_mask", Integer, optional},
      {Opcode::AtomicRmw, "kind", Text, required, rmw_kinds},
      {Opcode::AtomicRmw, "order", Text, optional, orders},
      {Opcode::AtomicRmw, "scope", Text, optional, scopes},
      {Opcode::AtomicCas, "has_mask", Integer, optional},
      {Opcode::AtomicCas, "order", Text, optional, orders},
      {Opcode::AtomicCas, "scope", Text, optional, scopes},
      {Opcode::Dot, "precision", Text, optional, precisions},
      {Opcode::Dot, "sum_order", Text, optional, sum_orders},
      {Opcode::Reduce, "axis", Integer, required},
      {Opcode::Reduce, "kind", Text, optional},
      {Opcode::Scan, "axis", Integer, required},
      {Opcode::Scan, "kind", Text, optional},
      {Opcode::Scan, "reverse", Integer, optional},
      {Opcode::For, "stages", Integer, optional},
      {Opcode::Expects, "message", Text, optional},
      {Opcode::DeviceAssert, "has_mask", Integer, optional},
      {Opcode::DeviceAssert, "message", Text, optional},
      {Opcode::DevicePrint, "message", Text, optional},
  });
}();
static_assert(std::is_sorted(std::begin(rules), std::end(rules),
                             [](const auto& a, const auto& b) { return a.code < b.code; }));
} // namespace

std::string_view name(AttributeKind kind) {
  static constexpr std::string_view names[] = {"an integer",         "a float",     "a text",
                                               "a list of integers", "a dimension", "a list of dimensions"};
  return names[static_cast<int>(kind)];
}

std::span<const AttributeRule> attributes_of(Opcode code) {
  auto first = std::lower_bound(std::begin(rules), std::end(rules), code,
                                [](const auto& r, Opcode c) { return r.code < c; });
  auto last = first;
  while (last != std::end(rules) && last->code == code)
    ++last;
  return {first, last};
}

} // namespace kiln::ir
