// Decides which tiles are kept in memory, and which are recomputed element by element where they are used.
//
// A tile program is lowered to loop nests, one for each *root*: a store, reduction, scan, sort, histogram,
// dot, atomic, print, assert, or a tile that gets a *buffer* (memory in the worker's scratch). Every other
// tile is *lazy*: its elements are evaluated inside the nests of the roots that need them, so that chains of
// elementwise operations never use memory.
//
// A tile gets a buffer if
//   1. it is carried by a loop, yielded by an `if`, or the result of a dot, a scan, a reduction or an atomic
//      (the result of a scan is written only if something outside its own nest reads it);
//   2. it reads memory, and a write comes between it and a root that would evaluate it, because a load sees
//      memory as it is at the load's own place in the program, or that root is an atomic, which changes
//      memory element by element;
//   3. it is expensive, and would be evaluated more than once: by more than one nest, through more than one
//      index map of a nest (index_maps.h), by a nest inside a loop that it is outside of, or by a broadcast
//      for every row; or it is cheap, but would be evaluated so many times that the code would double with
//      each stage of an algorithm such as an FFT;
//   4. evaluating it takes so many operations that LLVM would be slow to compile the nest, or a chain so long
//      that the recursion through its operands would overflow the stack;
//   5. a gather takes elements of it by index, or it is the result of a sort or a histogram; or
//   6. it is a reshape that joins rows which are no whole number of vectors. Its buffer is filled row by row
//      (copies_rows), because a vector of the result would span rows, and take a division for each lane.
// Costs are counted in additions. The thresholds are a heuristic: a buffer costs one store and one load an
// element, which is about four additions if the tile fits the L1 cache (tuning.h).
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_map>
#include <unordered_set>

namespace kiln::cpu {

// The largest code of a nest, in additions; more roots have nests of their own.
inline constexpr int largest_nest = 2000;

class Plan {
public:
  explicit Plan(const ir::Kernel& kernel);
  bool has_buffer(const ir::Value* v) const { return buffers_.count(v) != 0; }
  // Gives `v` a buffer. The emitter does so where program order requires it.
  void add_buffer(const ir::Value* v) { buffers_.insert(v); }
  // Whether `v` has a buffer because of rule 4, and must keep it.
  bool cuts_chain(const ir::Value* v) const { return cuts_.count(v) != 0; }
  // Whether `v` has a buffer because of rule 6.
  bool copies_rows(const ir::Value* v) const { return row_copies_.count(v) != 0; }
  // The size of the code that evaluates the operands of a root and the root itself, in additions; of a tile
  // with a buffer, `root` is the operation that computes it.
  int nest_size(const ir::Op& root) const;

private:
  friend class Planner;
  std::unordered_set<const ir::Value*> buffers_, cuts_, row_copies_;
  std::unordered_map<const ir::Op*, int> sizes_;
};

// Whether `op` has a loop nest of its own, instead of being evaluated inside others.
bool is_root(const ir::Op& op);
// Whether `op` loads rows whose elements may lie apart, such as those of a transposed matrix.
bool is_strided_load(const ir::Op& op);
// Whether the evaluation of `op` in its own nest includes such a load, through elementwise operations only.
bool reads_strided(const Plan& plan, const ir::Op& op);
// Whether an element of the result may depend on elements of an operand with other indices.
bool moves_elements(const ir::Op& op);
// Whether `op` is a function such as exp: many instructions, each of which waits for the one before.
bool has_long_latency(const ir::Op& op);

} // namespace kiln::cpu
