// What a program's scalars are made of, and how they differ from one program to the next.
#pragma once

#include <kiln/jit/cpu/facts/scope.h>

#include <optional>
#include <unordered_set>
#include <vector>

namespace kiln::cpu {

// Whether `v` is program_id(axis) * tile; gives the axis.
std::optional<int> program_offset(const ir::Value* v, std::int64_t tile);

// Whether `op` has one result, no regions, and no effect but that it may read memory.
bool computes_one_value(const ir::Op& op);

// What scalars are made of: the operations, and the axes of the grid among them.
class Slice {
public:
  explicit Slice(const Scope& body) : body_(&body) {}

  // False for what is not plain arithmetic of the kernel's body on scalars, and on what it reads.
  bool add(const ir::Value* v) {
    added_.push_back(v);
    return follow(v);
  }
  unsigned axes() const { return axes_; }
  const std::unordered_set<const ir::Op*>& ops() const { return ops_; }
  // Of what was added, what depends on an axis of the grid.
  std::vector<const ir::Value*> added_along(int axis) const;

private:
  bool follow(const ir::Value* v);

  const Scope* body_;
  std::vector<const ir::Value*> added_;
  std::unordered_set<const ir::Op*> ops_;
  unsigned axes_ = 0;
};

} // namespace kiln::cpu
