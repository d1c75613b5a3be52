// Defines tile IR, the representation of kernels: one function of typed SSA values in structured regions.
//
// A Kernel owns its body, a Region. A Region owns its arguments and its operations, in program order. An
// operation owns its results and its nested regions. Values are referred to by pointer, which is valid as
// long as the owner lives. A value can be used by later operations of its own region and of regions that are
// nested in it. There are no use lists: a pass walks over the kernel, collects replacements, and applies them
// together (`replace_uses`).
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
  Op* def = nullptr;          // the operation whose result this is, or null for an argument of a region
  Region* region = nullptr;   // the region whose argument this is, or null for a result
  int index = 0;              // the number of the result or argument
  const char* name = nullptr; // an optional name for printing, interned
};

// The value of an attribute: i64 for integers and flags, double for float constants, text, lists, dimensions.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, Dim, Shape>;

struct Region {
  Op* parent = nullptr; // null for a kernel's body
  std::vector<std::unique_ptr<Value>> args;
  std::vector<std::unique_ptr<Op>> ops;

  Value* add_arg(Type type, const char* name = nullptr);
  Op* terminator() const; // the yield at the end, or null; a kernel's body has none
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

  // Attributes are sorted by name, so that equal operations print the same text.
  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  std::string_view text(std::string_view name, std::string_view otherwise = "") const;
  const std::vector<std::int64_t>& integers(std::string_view name) const; // empty if absent
  const std::vector<std::pair<std::string, Attribute>>& attributes() const { return attributes_; }

  // Return the optional trailing operands of a memory operation; null if absent.
  Value* mask() const;
  Value* other() const;
  // Returns the offsets or indices of an operation on a view, one for each axis of the view.
  std::span<Value* const> view_offsets() const;
  // Returns the value that a view_store, view_scatter, store or atomic_rmw stores.
  Value* stored_value() const;

private:
  std::vector<std::pair<std::string, Attribute>> attributes_;
};

// An axis of the grid that program_tile defines. It has cdiv(e, tile) programs, where e is the extent along
// `axis` of the parameter number `param`, which is a view.
struct GridAxis {
  int param = 0;
  int axis = 0;
  Dim tile;
  bool operator==(const GridAxis&) const = default;
};

struct Kernel {
  std::string name;
  Region body;                  // its arguments are the kernel's parameters
  std::vector<GridAxis> grid;   // empty if the launch gives the grid
  bool config_specific = false; // value(BM) was used, so the IR is valid for `recorded_with` only
  Config recorded_with;

  explicit Kernel(std::string kernel_name) : name(std::move(kernel_name)) {}
  std::unique_ptr<Kernel> clone() const;
  // Returns the names of all dimensions in types, attributes and the grid, in the order of their first
  // appearance.
  std::vector<const char*> dimensions() const;
};

using ValueMap = std::unordered_map<const Value*, Value*>;

// Appends operations to a region. They get the source location that was set last.
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
  Value* binary(Opcode code, Value* a, Value* b); // operations of the classes Binary and Compare
  Value* select(Value* condition, Value* a, Value* b);
  Value* cast(Value* x, DType to);                 // returns x if it already has the dtype
  Value* splat(Value* scalar, const Shape& shape); // returns the scalar if the shape is empty
  Value* broadcast(Value* x, const Shape& shape);  // also adds missing leading axes
  void yield(std::vector<Value*> values);

private:
  Region* region_;
  SourceLocation loc_;
};

// Calls `visit(Op&)` for every operation in program order, and for nested operations after their parent.
template <class F> void walk(const Region& region, F&& visit) {
  for (const auto& op : region.ops) {
    visit(*op);
    for (const auto& inner : op->regions)
      walk(*inner, visit);
  }
}

// Replaces every operand that is a key of `map`, in the region and in nested regions. Chains of replacements
// are followed.
void replace_uses(Region& region, const ValueMap& map);
// Copies `op` with its regions. Operands are replaced by `map`, and the copied results and arguments are
// added to it.
std::unique_ptr<Op> clone(const Op& op, ValueMap& map);
// Returns how often each value is used, in the region and in nested regions.
std::unordered_map<const Value*, int> count_uses(const Region& region);

// Return whether an operation, or one inside its regions, may write or read memory, or has side effects: it
// writes, prints or asserts. An unused operation without side effects can be removed.
bool may_write(const Op& op);
bool may_read(const Op& op);
bool has_side_effects(const Op& op);

} // namespace kiln::ir
