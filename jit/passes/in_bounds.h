// How much of a tile comes from inside of the views that it was loaded from, along each of its axes. What
// pads tiles that stick out is no work that other tiles would need.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <array>
#include <unordered_map>

namespace kiln::passes {

class InBoundsExtents {
public:
  using Extents = std::array<double, ir::max_rank>;

  void clear() { known_.clear(); }
  // Whole, where nothing else is known.
  Extents of(const ir::Value* tile) const;
  double elements(const ir::Value* tile) const;
  // What a load gives.
  void set(const ir::Value* tile, const Extents& extents);
  // The results of an operation on tiles, from its operands: of several the least, since what is computed of
  // padding is padding.
  void follow(const ir::Op& op);
  // 2 M N K of a dot that was followed.
  double flops_of_dot(const ir::Op& op) const;

private:
  void follow_axes(const ir::Op& op);
  void follow_dot(const ir::Op& op);
  void follow_elements(const ir::Op& op);

  std::unordered_map<const ir::Value*, Extents> known_; // of what is not whole
};

} // namespace kiln::passes
