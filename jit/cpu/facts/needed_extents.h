// Declares the analysis of which elements of a tile are needed.
//
// A store to a view omits elements out of bounds. If all results that depend on a row of a tile end in such
// stores, a row that is out of bounds for all of them need not be computed. This saves most of a tile of 64
// rows with one query, and the last rows of a matrix whose extent is no multiple of the tile's. The analysis
// follows elements from stores back through all operations that keep rows separate.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_map>
#include <vector>

namespace kiln::cpu {

struct StoredAxis {
  const ir::Op* store = nullptr; // a view_store
  std::size_t axis = 0;          // of the stored tile
  bool operator==(const StoredAxis&) const = default;
};

class NeededExtents {
public:
  explicit NeededExtents(const ir::Kernel& bound);

  // The stores that bound which elements of `tile` are needed along `axis`: those that are out of bounds for
  // all of these stores are not needed. An empty list means that all elements may be needed. A value that a
  // loop or a branch carries is needed if any use of it needs it, on any path.
  const std::vector<StoredAxis>& stores(const ir::Value* tile, std::size_t axis) const;

private:
  struct Needs {
    bool all = false; // something other than a store to a view needs it
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

  std::unordered_map<const ir::Value*, std::vector<Needs>> needs_; // for each axis of each tile
  bool changed_ = false;
};

} // namespace kiln::cpu
