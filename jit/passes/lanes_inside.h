// Declares the analysis of which elements of a tile come from elements that were read inside of their views.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_map>

namespace kiln::passes {

// Builds, for tiles of indices, masks that are true where every element that an index is computed from was
// read inside of its view, and not masked off. What a load gives elsewhere is a replacement, such as zero, so
// that an index which is computed from it means nothing.
//
// The masks are emitted where the builder stands, which must be behind the operations that compute the tile.
class LanesInside {
public:
  explicit LanesInside(ir::Builder& build) : build_(build) {}
  // A tile or scalar of bool of the shape of `value`; null if it would be true everywhere, or if it is not
  // known.
  ir::Value* of(const ir::Value* value);

private:
  ir::Value* find(const ir::Op& op);
  ir::Value* of_load(const ir::Op& op);
  ir::Value* of_gather(const ir::Op& op);
  ir::Value* of_operands(const ir::Op& op);
  ir::Value* moved(const ir::Op& op);
  ir::Value* sorted(const ir::Op& op);
  ir::Value* chosen(const ir::Op& op);
  ir::Value* combined(const ir::Op& op);
  ir::Value* both(ir::Value* a, ir::Value* b);

  ir::Builder& build_;
  std::unordered_map<const ir::Value*, ir::Value*> known_;
};

} // namespace kiln::passes
