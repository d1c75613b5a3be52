// Declares the analysis of how many elements of a tile come from inside of views.
//
// A tile that overlaps the edge of a view is padded there. Computing the padding is work that tiles of
// another size would not need, so that the cost model counts it separately.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <array>
#include <unordered_map>

namespace kiln::passes {

class InBoundsExtents {
public:
  using Extents = std::array<double, ir::max_rank>;

  void clear() { known_.clear(); }
  // The extents of the tile that are in bounds; those of the whole tile if nothing else is known.
  Extents of(const ir::Value* tile) const;
  double elements(const ir::Value* tile) const;
  // Sets the extents of a load, of which the caller knows the offsets.
  void set(const ir::Value* tile, const Extents& extents);
  // Derives the extents of an operation's results from those of its operands. Of several operands the
  // smallest extents count, because a result that is computed from padding is padding.
  void follow(const ir::Op& op);
  // 2 M N K in bounds, for a dot that follow() has seen.
  double flops_of_dot(const ir::Op& op) const;

private:
  void follow_axes(const ir::Op& op);
  void follow_dot(const ir::Op& op);
  void follow_elements(const ir::Op& op);

  std::unordered_map<const ir::Value*, Extents> known_; // of tiles that are not whole
};

} // namespace kiln::passes
