// The state of a recording: the kernel under construction, its stack of regions, value numbers and variables.
// Internal to the recorder; one per thread at most.
#pragma once

#include <kiln/dsl/detail/emit.h>
#include <kiln/dsl/ir/ir.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace kiln::detail {

struct Scope {
  ir::Region* region = nullptr;
  std::uint32_t id = 0;
  bool combine = false; // of a reduction or scan: no memory, no assignments
  std::unordered_multimap<std::size_t, ir::Op*> numbered;
};

struct Variable {
  ir::Value* value = nullptr;
  std::uint32_t scope = 0; // where `value` is visible
};

class Recording {
public:
  Recording(const char* kernel_name, const Config& bound, SourceLocation where);
  ~Recording();

  static Recording* current();                   // null outside of recordings
  static Recording& need(std::string_view what); // UserError outside of recordings
  // For that error: the place of the call that is about to fail.
  static void called_at(SourceLocation place);

  ir::Value* use(const Handle& h) const; // checks that it may be used here
  Handle handle(ir::Value* v) const { return handle(v, scopes.back().id); }
  Handle handle(ir::Value* v, std::uint32_t scope) const { return {v, name, id, scope}; }
  // The handle of a pure operation's result, recorded now or before.
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
  SourceLocation where; // of the kernel
  SourceLocation loc;   // of the last named operation
  std::vector<Scope> scopes;
  std::map<std::uint64_t, Variable> variables; // in order of creation
  std::uint32_t next_scope = 0, next_variable = 0;
  // Arguments of regions that turned out not to be carried: handles may still point to them.
  std::vector<std::unique_ptr<ir::Value>> retired;
};

ir::Dim to_dim(const DimInfo& d);
ir::Type to_type(const TypeInfo& t);
void set_attributes(ir::Op& op, AttributeList attributes);

} // namespace kiln::detail
