// Declares slices: the scalar operations from which a program's scalars are computed.
#pragma once

#include <kiln/jit/cpu/facts/scope.h>

#include <optional>
#include <unordered_set>
#include <vector>

namespace kiln::cpu {

// The axis if `v` is program_id(axis) * tile.
std::optional<int> program_offset(const ir::Value* v, std::int64_t tile);

// Whether `op` has one result, no regions, and no effect except that it may read memory.
bool computes_one_value(const ir::Op& op);

// Collects the operations from which scalars are computed, and the axes of the grid on which they depend.
class Slice {
public:
  explicit Slice(const Scope& body) : body_(&body) {}

  // Adds a scalar. False if it is computed by anything other than scalar arithmetic and loads in the kernel's
  // body.
  bool add(const ir::Value* v) {
    added_.push_back(v);
    return follow(v);
  }
  unsigned axes() const { return axes_; }
  const std::unordered_set<const ir::Op*>& ops() const { return ops_; }
  // The added scalars that depend on an axis of the grid.
  std::vector<const ir::Value*> added_along(int axis) const;

private:
  bool follow(const ir::Value* v);

  const Scope* body_;
  std::vector<const ir::Value*> added_;
  std::unordered_set<const ir::Op*> ops_;
  unsigned axes_ = 0;
};

} // namespace kiln::cpu
