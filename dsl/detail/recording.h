// Defines Recording, the state of a recording: the kernel under construction, its open regions and its Vars.
// It is private to the recorder; each thread has at most one.
#pragma once

#include <kiln/dsl/detail/emit.h>
#include <kiln/dsl/ir/ir.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::detail {

// An open region.
struct Scope {
  ir::Region* region = nullptr;
  std::uint32_t id = 0;
  bool combine = false; // whether it is inside a combine function, which may only compute
  std::unordered_multimap<std::size_t, ir::Op*> numbered; // its pure operations by hash, for reuse
};

// The current value of a Var.
struct Variable {
  ir::Value* value = nullptr;
  std::uint32_t scope = 0; // where `value` is visible
};

class Recording {
public:
  Recording(const char* kernel_name, const Config& bound, SourceLocation where);
  ~Recording();

  static Recording* current(); // null outside of recordings
  // The current recording. UserError outside of recordings: "`what` is used while no kernel is being
  // recorded".
  static Recording& need(std::string_view what);
  // Sets the location that this error reports.
  static void called_at(SourceLocation place);

  // The value of a handle. UserError if it belongs to another recording or is not visible here.
  ir::Value* use(const Handle& h) const;
  Handle handle(ir::Value* v) const { return handle(v, scopes.back().id); }
  Handle handle(ir::Value* v, std::uint32_t scope) const { return {v, name, id, scope}; }
  // The result of a pure operation, which is recorded now unless an equal one was recorded before.
  Handle pure(ir::Opcode code, std::vector<ir::Value*> operands, ir::Type result,
              AttributeList attributes = {});
  ir::Op* effect(ir::Opcode code, std::vector<ir::Value*> operands, std::vector<ir::Type> results,
                 AttributeList attributes = {});
  Handle cast(Handle x, DType to);
  Handle broadcast(Handle x, const ir::Shape& shape);

  void push(ir::Region* region, bool combine);
  void pop() { scopes.pop_back(); }
  bool in_combine() const { return scopes.back().combine; }

  std::unique_ptr<ir::Kernel> kernel;
  const char* name;
  std::uint32_t id;
  Config config;
  SourceLocation where; // where the kernel is defined
  SourceLocation loc;   // where the last named operation is called
  std::vector<Scope> scopes;
  std::map<std::uint64_t, Variable> variables; // in order of creation
  std::uint32_t next_scope = 0, next_variable = 0;
  // The removed arguments of regions, for Vars that were not assigned. Handles may still point to them.
  std::vector<std::unique_ptr<ir::Value>> retired;
};

// How errors name the kernel that is being recorded.
inline std::string in_kernel(const Recording& r) { return "kernel \"" + std::string(r.name) + "\""; }

ir::Dim to_dim(const DimInfo& d);
ir::Type to_type(const TypeInfo& t);
void set_attributes(ir::Op& op, AttributeList attributes);

} // namespace kiln::detail
