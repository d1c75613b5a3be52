// The parts of the canonicaliser: what each kind of operation simplifies to.
#pragma once

#include <kiln/jit/passes/rewrite_rules.h>

#include <memory>
#include <optional>
#include <vector>

namespace kiln::passes {

// Creates operations at the place of the one that is being simplified, in simplest form.
class Simplifier {
public:
  virtual ~Simplifier() = default;
  // The result of the (simplified) operation.
  virtual ir::Value* insert(std::unique_ptr<ir::Op> op) = 0;

  ir::Value* make(ir::Opcode code, std::vector<ir::Value*> operands, ir::Type type);
  ir::Value* make(ir::Opcode code, ir::Value* x, ir::Type type, std::string_view attribute,
                  ir::Attribute value);
  // A constant, or a splat of one where the type is a tile.
  ir::Value* constant(const ir::Type& type, ir::Cell cell);
  ir::Value* splat(ir::Value* scalar, const ir::Shape& shape);

protected:
  SourceLocation loc_;
};

// Each returns what replaces the operation's only result, or null. The operation itself may be changed in
// place instead; then `*changed` is set.
ir::Value* fold_elementwise(const ir::Op& op, Simplifier& make);
ir::Value* simplify_conversion(const ir::Op& op, Simplifier& make);
ir::Value* simplify_shape(const ir::Op& op, Simplifier& make);
ir::Value* simplify_collective(const ir::Op& op, Simplifier& make);
ir::Value* simplify_memory(ir::Op& op, Simplifier& make, bool* changed);

// Whether the operation does nothing: a store that is masked off, a check of what is true.
bool does_nothing(const ir::Op& op);

} // namespace kiln::passes
