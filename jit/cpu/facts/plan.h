// Decides which tiles live in memory and which are recomputed element by element where they are used.
//
// A tile program is lowered to loop nests, one for each *root*: a store, reduction, scan, dot, atomic, print,
// assert, or a tile that is given a *buffer* (memory in the worker's scratch). Every other tile is *lazy*:
// its elements are evaluated inside the nests of the roots that need them, so chains of elementwise
// operations never touch memory.
//
// A tile gets a buffer if
//   1. it is carried by a loop, yielded by an `if`, or the result of a dot, a scan, a reduction or an atomic
//   (a scan's is written where another nest than its own reads it);
//   2. it reads memory and a write comes between it and a root that would evaluate it (a load sees the memory
//   of its own
//      place in the program, whatever is written later, through whatever view), or that root is an atomic
//      operation, which changes memory element by element;
//   3. it is expensive and more than one nest would evaluate it, or a nest inside a loop that it is outside
//   of, or a
//      broadcast would evaluate it again for every row;
//   4. it is the last of a long chain, which so is cut: evaluating a tile recurses through its operands.
// Cost is counted in additions; the thresholds are a heuristic: a buffer costs one store and one load an
// element, which is about four additions when the tile fits the L1 cache.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <unordered_set>

namespace kiln::cpu {

class Plan {
public:
  explicit Plan(const ir::Kernel& kernel);
  bool has_buffer(const ir::Value* v) const { return buffers_.count(v) != 0; }
  // From now on `v` lives in memory (the emitter put it there to keep program order).
  void add_buffer(const ir::Value* v) { buffers_.insert(v); }
  // Whether it has one so that no chain is too long, and must keep it.
  bool cuts_chain(const ir::Value* v) const { return cuts_.count(v) != 0; }

private:
  friend class Planner;
  std::unordered_set<const ir::Value*> buffers_, cuts_;
};

// Whether `op` starts a nest of its own rather than being evaluated inside others.
bool is_root(const ir::Op& op);
// Whether `op` is a function like exp, of many instructions each of which waits for the one before.
bool has_long_latency(const ir::Op& op);

} // namespace kiln::cpu
