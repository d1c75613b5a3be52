// Tile IR: a kernel is one function of typed SSA values in structured regions.
//
// A Kernel owns a body Region; a Region owns its arguments and its operations in program order; an operation
// owns its results and nested regions. Values are addressed by pointer, which stays valid as long as the
// owner lives. A value may be used by any later operation of its own region and by regions nested there.
// There are no use lists: passes walk, collect replacements and apply them in one sweep (`replace_uses`).
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/ops.h>
#include <kiln/dsl/ir/type.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace kiln::ir {

class Op;
struct Region;

struct Value {
  Type type;
  Op* def = nullptr;          // the operation whose result this is, or null for a region's argument
  Region* region = nullptr;   // the region whose argument this is, or null
  int index = 0;              // which result or argument
  const char* name = nullptr; // interned, optional: parameters and named tiles
};

// i64 for integers and flags, double for float constants, text, and lists.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, Dim, Shape>;

struct Region {
  Op* parent = nullptr; // null for a kernel's body
  std::vector<std::unique_ptr<Value>> args;
  std::vector<std::unique_ptr<Op>> ops;

  Value* add_arg(Type type, const char* name = nullptr);
  Op* terminator() const; // the yield, or null (a kernel's body has none)
};

class Op {
public:
  Op(Opcode code, std::vector<Value*> operands, std::vector<Type> result_types, SourceLocation loc = {});
  Op(const Op&) = delete;
  ~Op();

  Opcode code;
  SourceLocation loc;
  std::vector<Value*> operands;
  std::vector<std::unique_ptr<Value>> results;
  std::vector<std::unique_ptr<Region>> regions;

  const OpInfo& info() const { return ir::info(code); }
  bool is(Opcode c) const { return code == c; }
  Value* result(int i = 0) const { return results[static_cast<std::size_t>(i)].get(); }
  Value* operand(int i) const { return operands[static_cast<std::size_t>(i)]; }
  int num_operands() const { return static_cast<int>(operands.size()); }
  int num_results() const { return static_cast<int>(results.size()); }
  Region* region(int i = 0) const { return regions[static_cast<std::size_t>(i)].get(); }
  Region* add_region();

  // Attributes, sorted by name so that equal operations print equally.
  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  std::string_view text(std::string_view name, std::string_view otherwise = "") const;
  const std::vector<std::int64_t>& integers(std::string_view name) const; // empty list if absent
  const std::vector<std::pair<std::string, Attribute>>& attributes() const { return attributes_; }

  // Optional trailing operands of memory operations; null if absent.
  Value* mask() const;
  Value* other() const;
  // The offsets or indices of view operations (one per view axis).
  std::span<Value* const> view_offsets() const;
  // The stored value of view_store, view_scatter, store, atomic_rmw.
  Value* stored_value() const;

private:
  std::vector<std::pair<std::string, Attribute>> attributes_;
};

// One axis of the grid that program_tile defines: cdiv(extent of parameter `param` along `axis`, tile)
// programs.
struct GridAxis {
  int param = 0;
  int axis = 0;
  Dim tile;
  bool operator==(const GridAxis&) const = default;
};

struct Kernel {
  std::string name;
  Region body;                  // args are the parameters
  std::vector<GridAxis> grid;   // empty: the launch gives the grid
  bool config_specific = false; // value(BM) was read while recording: the IR holds for `recorded_with` only
  Config recorded_with;

  explicit Kernel(std::string kernel_name) : name(std::move(kernel_name)) {}
  std::unique_ptr<Kernel> clone() const;
  // Every dimension name in types, attributes and the grid, in order of first appearance.
  std::vector<const char*> dimensions() const;
};

using ValueMap = std::unordered_map<const Value*, Value*>;

// Creates operations at the end of a region, or before a given one.
class Builder {
public:
  explicit Builder(Region* region) : region_(region) {}
  void set_region(Region* region) { region_ = region; }
  Region* region() const { return region_; }
  void set_location(SourceLocation loc) { loc_ = loc; }
  SourceLocation location() const { return loc_; }

  Op* create(Opcode code, std::vector<Value*> operands, std::vector<Type> result_types);
  Op* insert(std::unique_ptr<Op> op);

  Value* constant(DType t, std::int64_t value);
  Value* constant(DType t, double value);
  Value* index(std::int64_t value) { return constant(DType::I64, value); }
  Value* unary(Opcode code, Value* x);
  Value* binary(Opcode code, Value* a, Value* b); // Binary and Compare
  Value* select(Value* condition, Value* a, Value* b);
  Value* cast(Value* x, DType to);                 // x itself if it already has the dtype
  Value* splat(Value* scalar, const Shape& shape); // x itself if the shape is empty
  Value* broadcast(Value* x, const Shape& shape);  // scalar, equal rank, or missing leading axes
  void yield(std::vector<Value*> values);

private:
  Region* region_;
  SourceLocation loc_;
};

// Calls `visit(Op&)` for every operation in program order, nested ones after their parent.
template <class F> void walk(const Region& region, F&& visit) {
  for (const auto& op : region.ops) {
    visit(*op);
    for (const auto& inner : op->regions)
      walk(*inner, visit);
  }
}

// Replaces every operand that is a key of `map`, in the region and below.
void replace_uses(Region& region, const ValueMap& map);
// Copies `op` (regions included) with operands mapped; results and inner values are added to the map.
std::unique_ptr<Op> clone(const Op& op, ValueMap& map);
// How often each value is used, in the region and below.
std::unordered_map<const Value*, int> count_uses(const Region& region);

// Pure, or only reading: may be removed when unused. For operations with regions, what is inside decides.
bool may_write(const Op& op);
bool may_read(const Op& op);
bool has_side_effects(const Op& op); // writes, prints or asserts, here or inside

} // namespace kiln::ir
