// Declares the parts of the canonicaliser, one for each kind of operation.
#pragma once

#include <kiln/jit/passes/rewrite_rules.h>

#include <memory>
#include <optional>
#include <vector>

namespace kiln::passes {

// Inserts operations before the one that is being simplified, and simplifies them at once.
class Simplifier {
public:
  virtual ~Simplifier() = default;
  // Returns the result of the operation, or of what it simplifies to.
  virtual ir::Value* insert(std::unique_ptr<ir::Op> op) = 0;

  ir::Value* make(ir::Opcode code, std::vector<ir::Value*> operands, ir::Type type);
  ir::Value* make(ir::Opcode code, ir::Value* x, ir::Type type, std::string_view attribute,
                  ir::Attribute value);
  // A constant, or a splat of one if the type is a tile.
  ir::Value* constant(const ir::Type& type, ir::Cell cell);
  ir::Value* splat(ir::Value* scalar, const ir::Shape& shape);

protected:
  SourceLocation loc_;
};

// Each returns what replaces the operation's only result, or null. simplify_memory may change the operation
// in place instead, and sets `*changed` then.
ir::Value* fold_elementwise(const ir::Op& op, Simplifier& make);
ir::Value* simplify_conversion(const ir::Op& op, Simplifier& make);
ir::Value* simplify_shape(const ir::Op& op, Simplifier& make);
ir::Value* simplify_collective(const ir::Op& op, Simplifier& make);
ir::Value* simplify_memory(ir::Op& op, Simplifier& make, bool* changed);

// Whether the operation has no effect: a store that is masked off, or a check whose condition is true.
bool does_nothing(const ir::Op& op);

} // namespace kiln::passes
