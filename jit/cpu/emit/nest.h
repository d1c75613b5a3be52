// The data of one loop nest over the elements of a tile.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/lanes.h>

#include <map>
#include <set>
#include <tuple>

namespace kiln::cpu {

using namespace emit; // what it shares with other back ends

// A tile in the worker's scratch, row-major, its vector axis padded so that whole vectors may be read and
// written.
struct Buffer {
  llvm::Value* pointer = nullptr;
  DType dtype = DType::F32;
  bool is_pointer = false; // elements are addresses
  std::vector<std::int64_t> extents, strides;
  llvm::Value* row_stride = nullptr; // of the first axis, where it is no constant
};

// An index along one axis: `base`, `base + lane` (linear: and base is a multiple of the number of lanes), or
// `base + lanes` with one number per lane.
// `depth` is that of the loop it varies with, or in which it is computed.
struct Index {
  llvm::Value* base = nullptr;
  bool linear = false;
  llvm::Value* lanes = nullptr;
  int depth = 0;
  // The base may be reasoned about outside the loop: it is a constant or a loop's own variable; where lanes
  // are more or fewer than the vector loop's, that loop's times as many.
  bool direct = true;
  bool uniform() const { return !linear && !lanes; }
};
using Indices = std::vector<Index>;

// What a nest does at each element of its domain.
struct Root {
  enum class Kind { Fill, Reduce, Scan, Store } kind;
  const ir::Value* value = nullptr; // Fill: what; others: null
  const ir::Op* op = nullptr;       // Reduce, Scan, Store
  Buffer buffer = {};               // Fill: where to
  bool own = false;                 // Fill: it is the value's own buffer
  bool sole = false;                // Fill: whoever reads the value reads this buffer
  // Store to a view: where tile element 0 goes and the distance in elements along each tile axis.
  llvm::Value* destination = nullptr;
  Values destination_strides = {};
  llvm::Value* direct = nullptr;                  // with a destination: whether it lies in the view
  const Buffer* stored_from = nullptr;            // Store: the value was put here before
  std::vector<const ir::Value*> kept = {};        // Scan: results that something beside this nest reads
  std::map<const ir::Value*, Buffer> copies = {}; // Scan: operands that were put here before

  // From one element to the next it carries what it has combined so far.
  bool carries_values() const { return kind == Kind::Reduce || kind == Kind::Scan; }
};

bool only_fill_and_reduce(const std::vector<Root>& roots);

// The running values of one reduction or scan; `has` tells which lanes hold anything, null if the initial
// value is the identity. Without values it begins with the first element.
struct Accumulator {
  Values values;
  llvm::Value* has = nullptr;
};
using Accumulators = std::vector<Accumulator>;

// A vector loop runs in parts: a fast one whose lanes are all inside every view it touches, as far as that
// holds, and a guarded one for the rest, of which lanes past all views may be taken together. While the fast
// body is being built, `limits` collects how far it goes, and `pasts` from which lane on each view's elements
// are past its end, and each comparison of column numbers fails.
struct Nest {
  std::vector<std::int64_t> domain;
  std::vector<Root> roots;
  std::vector<int> outer_axes;
  int vector_axis = -1;  // -1: no vector loop
  int reduced_axis = -1; // of a reduction or scan along another than the vector axis: innermost
  bool reversed = false; // a scan from the far end: the loop along its axis begins there
  int lanes = 1;         // of the vector at hand
  int loop_lanes = 1;    // of the vectors of the loop; those that a reshape is made of differ
  int native_lanes = 1;  // of a register; the fast half may have vectors of several
  int unroll = 1;
  Values bounds; // per domain axis: where the loop may end; null: the domain's extent

  // transposed_loads.cpp: loads whose neighbours lie along the last of the outer axes, and the block of rows along it
  // that the body of the vector loop computes for their sake.
  struct TransposedLoad { // the axes of its tile that are the loop's and the vector's
    std::size_t row, column;
    bool operator==(const TransposedLoad&) const = default;
  };
  std::map<const ir::Op*, TransposedLoad> transposed_loads;
  int block = 1;
  Values rows;        // of the block at hand; none: one row
  bool always = true; // no condition stands before the nest

  bool guarded = true;
  bool out_of_bounds = false;  // guarded, and all lanes are past every one of `pasts`
  bool streaming = false;      // whole vectors are stored past the cache, at aligned addresses
  llvm::Value* tail = nullptr; // guarded: lanes inside the domain; null: all
  llvm::Instruction* limit_point = nullptr;
  int limit_depth = 0;
  Values limits, pasts;

  llvm::Instruction* hoist_point = nullptr; // before the innermost loop
  int hoist_depth = 0;

  struct Key {
    const ir::Value* value;
    int lanes; // 0: the same in all lanes
    std::vector<const void*> at;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, llvm::Value*> memo, hoisted;
  std::set<std::tuple<Key, llvm::Value*, int, int>> limited; // indices that `limits` keeps inside an extent
  void clear_limits() { limits.clear(), pasts.clear(), limited.clear(); }
  std::set<const ir::Value*> being_filled;
  std::set<const ir::Op*> loads; // views' tiles that it reads
};

// Of the innermost loop that they vary with.
int depth_of(const Indices& at);

// What is the same for every evaluation of `v` at these indices.
Nest::Key key_of(const ir::Value* v, const Indices& at, int lanes);

} // namespace kiln::cpu
