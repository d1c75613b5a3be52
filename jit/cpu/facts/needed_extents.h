// How much of a tile is ever needed.
//
// Stores leave out what lies past the end of their view. Where all that is made of a row ends in such stores,
// a row past their end need not be computed at all: one query in a tile of 64 rows, or the last rows of a
// ragged matrix. This follows elements from the stores back through everything that keeps rows apart.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_map>
#include <vector>

namespace kiln::cpu {

struct StoredAxis {
  const ir::Op* store = nullptr; // to a view
  std::size_t axis = 0;          // of the tile that it stores
  bool operator==(const StoredAxis&) const = default;
};

class NeededExtents {
public:
  explicit NeededExtents(const ir::Kernel& bound);

  // The axes of stores beyond whose views nothing needs elements of `tile` along `axis`; none: all may be
  // needed. What a loop or a branch carries counts as needed by whatever reads it on any way through.
  const std::vector<StoredAxis>& stores(const ir::Value* tile, std::size_t axis) const;

private:
  struct Needs {
    bool all = false; // by something else than stores to views
    std::vector<StoredAxis> stores;
  };

  void add_tile(const ir::Value* v);
  void visit(const ir::Op& op);
  void need(const ir::Value* v, std::size_t axis, const Needs& more);
  void need_all(const ir::Value* v);
  void need_like(const ir::Value* v, const ir::Value* like);
  void visit_moved(const ir::Op& op);
  void visit_dot(const ir::Op& op);
  void visit_along(const ir::Op& op);
  void visit_loop(const ir::Op& op);

  std::unordered_map<const ir::Value*, std::vector<Needs>> needs_; // of each tile, per axis
  bool changed_ = false;
};

} // namespace kiln::cpu
