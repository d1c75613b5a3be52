// Declares the checks of indices of reads, which are made where the results of the reads are used.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::passes {

// Compares each index with 0 and with a limit, in the lanes where `mask` is true (null: in all lanes), and
// asserts the result.
struct IndexCheck {
  ir::Value* index = nullptr;
  ir::Value* limit = nullptr; // a scalar of the dtype of the index
  std::string message;
};
void assert_index(ir::Builder& build, const IndexCheck& check, ir::Value* mask);

// Holds the checks of a read by index back until its result is used: stored, reduced, returned from a loop,
// or used in another way than to compute other elements. A lane that is masked off there, or that a select or
// a logical operation does not choose, is not checked, because the index in it means nothing.
//
// The caller calls before() and after() for each operation in program order, with a builder at its place.
class DeferredChecks {
public:
  // Holds the checks of `read` back. The indices have the shape of its result, as the mask has.
  void defer(const ir::Op& read, std::vector<IndexCheck> checks, ir::Value* mask);
  // Makes the checks that are due because `op` uses results of reads.
  void before(ir::Builder& build, const ir::Op& op);
  // Follows results of reads through `op`, which the builder has just appended.
  void after(ir::Builder& build, const ir::Op& op);

private:
  struct Read {
    SourceLocation loc;
    std::vector<IndexCheck> checks;
  };
  // The elements of a value that depend on a read: the indices in the place of each element, and where the
  // element depends on it (null: everywhere). Scalars hold for all elements.
  struct Dependence {
    std::shared_ptr<const Read> read;
    std::vector<ir::Value*> indices;
    ir::Value* where = nullptr;
  };
  using Dependences = std::vector<Dependence>;

  void check(ir::Builder& build, const Dependence& d, ir::Value* mask) const;
  void follow_operand(ir::Builder& build, const ir::Op& op, int operand, Dependences& to);
  void follow_branches(ir::Builder& build, const ir::Op& op);
  static void merge(ir::Builder& build, Dependences& to, Dependence d);

  std::unordered_map<const ir::Value*, Dependences> known_;
};

} // namespace kiln::passes
