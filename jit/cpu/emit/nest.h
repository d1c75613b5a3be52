// Describes one loop nest over the elements of a tile.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/lanes.h>

#include <map>
#include <set>
#include <tuple>

namespace kiln::cpu {

using namespace emit; // shared with the GPU's code generator

// A tile in the worker's scratch. It is row-major, and its vector axis is padded so that whole vectors may be
// read and written.
struct Buffer {
  llvm::Value* pointer = nullptr;
  DType dtype = DType::F32;
  bool is_pointer = false; // elements are addresses
  std::vector<std::int64_t> extents, strides;
  llvm::Value* row_stride = nullptr; // the stride of the first axis if it is no constant
};

// The strides of a tile whose elements follow each other without a gap.
std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& extents);
bool is_dense(const Buffer& buffer);

// An index along one axis: `base`; or `base + lane` (linear: base is a multiple of the number of lanes); or
// `base + lanes` with one number per lane. `depth` is the depth of the loop with which the index varies, or
// in which it is computed.
struct Index {
  llvm::Value* base = nullptr;
  bool linear = false;
  llvm::Value* lanes = nullptr;
  int depth = 0;
  // The index can be analysed before the loop: its base is a constant or a loop's own variable. If there are
  // more or fewer lanes than the vector loop has, the base is that loop's times the same factor.
  bool direct = true;
  int divided_by = 0; // linear: if not 0, the base is the loop's own variable divided by this, without a rest
  bool uniform() const { return !linear && !lanes; }
};
using Indices = std::vector<Index>;

// The work of a nest at each element of its domain.
struct Root {
  // Update: an atomic operation on consecutive elements.
  enum class Kind { Fill, Reduce, Scan, Store, Update } kind;
  const ir::Value* value = nullptr; // Fill: the value; others: null
  const ir::Op* op = nullptr;       // Reduce, Scan, Store, Update
  Buffer buffer = {};               // Fill: the destination
  bool own = false;                 // Fill: `buffer` is the value's own buffer
  bool sole = false;                // Fill: every reader of the value reads this buffer
  bool plain = false;               // Update: by plain loads and stores
  bool in_order = false;            // Fill: each row is filled as a whole before the next one
  // Store to a view: the address of tile element 0, and the stride along each axis of the tile, in elements.
  llvm::Value* destination = nullptr;
  Values destination_strides = {};
  llvm::Value* direct = nullptr;                  // with a destination: i1, whether it lies in the view
  const Buffer* stored_from = nullptr;            // Store: the buffer that already holds the value
  std::vector<const ir::Value*> kept = {};        // Scan: results that something outside this nest reads
  std::map<const ir::Value*, Buffer> copies = {}; // Scan: buffers that already hold operands

  // Whether the root carries the combination of previous elements from one element to the next.
  bool carries_values() const { return kind == Kind::Reduce || kind == Kind::Scan; }
};

bool only_fill_and_reduce(const std::vector<Root>& roots);

// The running values of one reduction or scan. `has` is the mask of lanes that hold a value; it is null if
// the initial value is the identity. Without values, the first element becomes the initial value.
struct Accumulator {
  Values values;
  llvm::Value* has = nullptr;
};
using Accumulators = std::vector<Accumulator>;

// A vector loop has up to three parts. In the fast part all lanes are inside every view that the loop
// accesses, so that no masks are needed. The guarded part handles the rest with masks. Lanes that are past
// all views may have a part of their own (out_of_bounds.cpp). While the body of the fast part is emitted,
// `limits` collects how far that half may go. `ends` collects for each view the first lane past its end, and
// for each comparison of column indices the first lane for which it fails.
struct Nest {
  std::vector<std::int64_t> domain;
  std::vector<Root> roots;
  bool flat = false; // the domain is the row-major number of the elements of filled buffers (flatten_fills)
  std::vector<int> outer_axes;
  int vector_axis = -1; // -1: no vector loop
  // The axis of a reduction or scan if it is not the vector axis. Its loop is the innermost one.
  int reduced_axis = -1;
  bool reversed = false; // a reverse scan: the loop along its axis begins at the end
  int lanes = 1;         // lanes of the current vector
  int loop_lanes = 1;    // lanes of the loop's vectors; a reshape evaluates vectors of other lengths
  int native_lanes = 1;  // lanes of one register; vectors of the fast part may span several
  int unroll = 1;
  Values bounds; // for each axis, where the loop may end; null: at the domain's extent

  // transposed_loads.cpp, transposed_stores.cpp: loads and stores that are contiguous along the last outer
  // axis, and the block of rows along that axis that the body of the vector loop computes together for them.
  struct TransposedAccess { // the axes of the access's tile that are the last outer axis and the vector axis
    std::size_t row, column;
    bool operator==(const TransposedAccess&) const = default;
  };
  std::map<const ir::Op*, TransposedAccess> transposed_loads, transposed_stores;
  std::map<const ir::Op*, Values> collected; // by store: the values of the rows of a block so far
  bool computes_blocks() const { return !transposed_loads.empty() || !transposed_stores.empty(); }
  int block = 1;
  Values rows;        // the rows of the current block; empty: a single row
  bool always = true; // the nest executes unconditionally

  // narrow_rows.cpp: the vector axis is made of rows of `narrow` elements, fewer than a vector has. A step of
  // the fast part is `unroll` vectors, which begin and end with whole rows. `step` is its index, and `phase`
  // the number of elements before the current vector in it.
  int narrow = 0;
  llvm::Value* step = nullptr;
  std::int64_t phase = 0;
  std::map<const ir::Value*, llvm::Value*> columns; // in the current step: one element of each row

  bool guarded = true;
  bool out_of_bounds = false;  // guarded, and all lanes are at or past all of `ends`
  bool streaming = false;      // stores are non-temporal, of whole vectors at aligned addresses
  llvm::Value* tail = nullptr; // guarded: the mask of lanes inside the domain; null: all
  llvm::Instruction* limit_point = nullptr;
  int limit_depth = 0;
  Values limits, ends;

  llvm::Instruction* hoist_point = nullptr; // before the innermost loop
  int hoist_depth = 0;

  struct Key {
    const ir::Value* value;
    int lanes; // 0: the value is the same in all lanes
    std::vector<const void*> at;
    std::vector<std::int64_t> extents = {}; // of what the indices belong to, unless it is the value itself
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, llvm::Value*> memo, hoisted;
  std::set<Key> prefetched; // rows of gathers, as the next iteration reads them
  std::set<std::tuple<Key, llvm::Value*, int, int>>
      limited; // the indices that `limits` already keeps below an extent
  void clear_limits() { limits.clear(), ends.clear(), limited.clear(); }
  std::set<const ir::Value*> being_filled;
  std::set<const ir::Op*> loads; // the loads from views that it evaluates
};

// The depth of the innermost loop with which any of the indices varies.
int depth_of(const Indices& at);

// The key under which an evaluation of `v` at these indices is remembered.
Nest::Key key_of(const ir::Value* v, const Indices& at, int lanes);

} // namespace kiln::cpu
