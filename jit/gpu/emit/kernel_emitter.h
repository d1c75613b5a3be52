// Lowers one tile IR kernel to LLVM IR for the threads of a GPU block.
//
// A program is one block of `plan.warps` warps. Every thread computes all scalars. A tile is a list of
// registers in each thread, and its layout says which element a register of a lane of a warp holds.
// Operations are emitted in program order, but free tiles (layout_plan.h) where they are used, in the layout
// that is needed there. Layouts are padded to powers of two, and elements beyond the extents of a tile have
// arbitrary values: loads, stores, reductions and products mask them. The member functions are spread over
// the files of this folder by topic.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/emit/elementwise.h>
#include <kiln/jit/emit/line_info.h>
#include <kiln/jit/gpu/emit/hardware_math.h>
#include <kiln/jit/gpu/emit/machine.h>
#include <kiln/jit/gpu/exchange/conversion.h>
#include <kiln/jit/gpu/layout_plan.h>
#include <kiln/jit/passes/non_negative.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace kiln::gpu {

// The properties of the code of a kernel that a launch must know.
struct KernelShape {
  int warps = 4;
  int grid_rank = 1; // how many extents of the grid are among the parameters
  std::int64_t shared_bytes = 0;
};

class KernelEmitter {
public:
  // `plan` must be the plan of `kernel`. Both must outlive the emitter.
  KernelEmitter(llvm::Module& module, const ir::Kernel& kernel, const LayoutPlan& plan,
                const emit::NumberOptions& numbers, Machine& machine, bool debug = false);
  void keep_lines() { keep_lines_ = true; } // adds source lines, as debug does; to be called before run
  void run();
  KernelShape shape() const { return {plan_.warps, static_cast<int>(grid_.size()), shared_bytes_}; }

private:
  struct Tile {
    LinearLayout layout;
    Values registers;
  };
  struct ViewFacts {
    llvm::Value* data = nullptr;
    Values extents, strides;
  };

  // kernel_emitter.cpp: entry, regions, scalars
  void emit_entry();
  void load_parameters(const std::vector<llvm::Value*>& words);
  void emit_region(const ir::Region& region);
  void emit_op(const ir::Op& op);
  void emit_scalar(const ir::Op& op);
  llvm::Value* scalar(const ir::Value* v);
  ViewFacts& facts(const ir::Value* view);

  // tiles.cpp: registers in a layout
  void define(const ir::Value* v, LinearLayout layout, Values registers);
  void define_loaded(const ir::Value* v, LinearLayout layout, std::function<Values()> loaded);
  // Unpacks all loaded tiles. Needed before a region: a tile from outside must not be unpacked inside it for
  // the first time.
  void settle();
  Values registers(const ir::Value* v, const LinearLayout& layout);
  Values evaluate_free(const ir::Value* v, const LinearLayout& layout);
  Values emit_rolled(const ir::Op& op, const std::vector<Values>& operands);
  Values emit_trigonometric(const ir::Op& op, const Values& angles);
  // convert.cpp
  Values convert(const Values& from, const LinearLayout& have, const LinearLayout& want);
  Values emit_plan(const WarpShuffles& plan, const Values& from);
  Values emit_plan(const SharedExchange& plan, const Values& from);
  llvm::Value* exchanged_place(const ThreadFunction& thread, llvm::Value* own, std::int64_t shared,
                               std::uint32_t offset);
  void store_exchanged(const SharedExchange& plan, std::int64_t shared, const Values& from, int pass = 0);
  void store_exchanged(const SharedExchange& plan, std::int64_t shared, const Values& from,
                       std::span<const SharedExchange::Access> stores);
  Values flipped(Values values, const ThreadFunction& flip);
  llvm::Value* thread_number(const ThreadFunction& f);
  Values exchange(const Values& from, const LinearLayout& have,
                  const std::function<llvm::Value*(int)>& written, const LinearLayout& want,
                  const std::function<llvm::Value*(int)>& read, std::int64_t elements, llvm::Type* type);
  void emit_reshape(const ir::Op& op);

  // tiles.cpp, continued: coordinates
  LinearLayout layout_of(const ir::Value* v); // the planned layout, or the default one of a free tile
  llvm::Value* thread_part(const LinearLayout& layout, int axis);                           // i32
  llvm::Value* coordinate(const LinearLayout& layout, int reg, int axis);                   // i32
  llvm::Value* is_below(const LinearLayout& layout, int reg, int axis, llvm::Value* bound); // i1
  llvm::Value* inside_tile(const LinearLayout& layout, int reg, const ir::Type& type);      // i1; null: true
  // i1: whether no earlier thread holds the same elements; null: true.
  llvm::Value* owner(const LinearLayout& layout);
  llvm::Value* lane();
  llvm::Value* warp();

  // memory.cpp
  struct Access { // to all elements of a tile
    Values pointers;
    std::function<llvm::Value*(int)> wanted;  // emits the predicate of one register; null: true
    std::function<llvm::Value*(int)> in_tile; // the same without regard to the view and to masks
    llvm::Value* inside = nullptr;            // whether all elements are wanted; null: no path for that
    int vector = 1;                           // how many neighbouring registers one aligned access takes
    std::string_view cache;                   // a hint, as Machine takes it
    int align = 0; // what the pointers are multiples of, in bytes; 0: the size of an element
  };
  struct Registers { // a range of the registers of a layout
    int first = 0, count = 0;
  };
  void apply_mask(Access& access, const Values& mask);
  Values either_way(llvm::Value* whole, const std::function<Values()>& fast,
                    const std::function<Values()>& slow);
  llvm::Value* load_element(const Access& access, std::size_t i, int size, llvm::Value* wanted,
                            llvm::Value* otherwise);
  std::function<Values()> load(const Access& access, DType t, const Values& otherwise);
  void store(const Access& access, DType t, const Values& values, const LinearLayout& layout);
  llvm::Value* both(llvm::Value* a, llvm::Value* b); // nulls are true

  // view_memory.cpp
  bool is_non_negative(const ir::Value* v) const { return non_negative_.contains(v); } // never negative
  Access view_access(const ir::Op& op, const LinearLayout& layout, const std::vector<std::int64_t>& axes);
  Access view_access(const ir::Op& op, const LinearLayout& layout, const std::vector<std::int64_t>& axes,
                     Registers of);
  Values view_pointers(const ir::Op& op, const LinearLayout& layout, const std::vector<std::int64_t>& axes,
                       Registers of);
  static int view_neighbours(const ir::Op& op, const ir::Type& tile, const LinearLayout& layout,
                             const std::vector<std::int64_t>& axes);
  int view_vector(const ir::Op& op, const ir::Type& tile, const LinearLayout& layout,
                  const std::vector<std::int64_t>& axes) const;
  void look_for_vectors(Access& access, const ir::Op& op, const ir::Type& tile, const LinearLayout& layout);
  void emit_view_load(const ir::Op& op);
  // Loads and unpacks some registers, and emits no barriers.
  Values load_part(const ir::Op& op, const LinearLayout& layout, Registers part);
  void emit_view_places(const ir::Op& op); // pointers or masks
  void emit_view_store(const ir::Op& op);

  // element_memory.cpp
  void emit_element_load(const ir::Op& op); // through pointers, or gathered
  void emit_element_store(const ir::Op& op);
  Access element_access(const ir::Op& op, const LinearLayout& layout);
  Access pointer_access(const ir::Op& op, const LinearLayout& layout);
  Access gather_access(const ir::Op& op, const LinearLayout& layout);
  int neighbours(const ir::Value* places, const std::vector<const ir::Value*>& others,
                 const LinearLayout& layout, int size);
  bool room_for_addresses(std::size_t elements) const;
  llvm::Value* are_aligned(const Values& pointers, int vector, int bytes);

  // order.cpp: barriers
  struct Touch { // an access, as far as its order matters
    enum class Kind { View, Pointer, Shared } kind;
    bool write = false;
    const ir::Op* op = nullptr;
    const ir::Value* view = nullptr;
    std::int64_t begin = 0, end = 0; // bytes of shared memory
    bool checked = false;            // whether a barrier_if has followed it (in LoopStart: preceded it)
    bool operator==(const Touch&) const = default;
  };
  using Touches = std::vector<Touch>;
  // The accesses of the body of a loop before its first barrier.
  struct LoopStart {
    Touches touches;
    bool closed = false, checked = false; // whether there has been a barrier, a barrier_if
  };
  enum class Conflict { Never, IfViewsOverlap, Always };
  void touch(Touch next);               // order_before, then note
  void order_before(const Touch& next); // emits a barrier if the access needs one
  void note(Touch next);                // records an access that has the barrier that it needs
  template <class OfElements>
  static Conflict conflict(const Touch& before, const Touch& next, OfElements&& of_elements);
  static std::optional<Touch> memory_touch(const ir::Op& op);
  static void merge(Touches& into, const Touches& more);
  void barrier();
  void barrier_if_views_overlap();
  void exchange_in_warp(const Touch& reading);
  static Conflict same_indices(const ir::Type& view);
  bool same_elements(const ir::Op& a, const ir::Op& b) const;
  static bool steps_apart(const ir::Op& loop, const ir::Op& a, const ir::Op& b);
  static std::unordered_set<const ir::Value*> changing_in(const ir::Op& loop);
  // Around the emission of a loop's body.
  struct OpenLoop {
    Touches before;
    std::vector<LoopStart> outer;
    std::int64_t shared_floor = 0;
    std::size_t kept_factors = 0;
  };
  OpenLoop enter_loop(const ir::Op& op);
  void close_loop(const ir::Op& loop); // before it branches back
  void leave_loop(const OpenLoop& loop);
  std::int64_t allocate_shared(std::int64_t bytes);
  llvm::Value* shared_pointer(std::int64_t offset);

  // reduce.cpp
  struct Partial { // of a reduction or a scan: one value for each of its tiles
    Values values;
    llvm::Value* has = nullptr; // whether it covers any element; null: true
  };
  void emit_reduce(const ir::Op& op);
  Partial merge(const ir::Op& op, const Partial& first, const Partial& second);
  Partial shuffled(const Partial& p, const std::function<llvm::Value*(llvm::Value*)>& word);
  void order_by_lane(Partial& own, Partial& other, unsigned bit);
  std::vector<Partial> convert(const std::vector<Partial>& parts, const LinearLayout& have,
                               const LinearLayout& want);
  llvm::Value* shuffle(llvm::Value* v, const std::function<llvm::Value*(llvm::Value*)>& word);
  Values combine(const ir::Op& op, const Values& a, const Values& b);

  // lookup.cpp, sort.cpp
  std::function<llvm::Value*(int)> row_major(const LinearLayout& layout, const ir::Type& type);
  void clear_padding(Values& values, const LinearLayout& layout, const ir::Type& type);
  void emit_gather(const ir::Op& op);
  void emit_histogram(const ir::Op& op);
  class Sorter; // sort.cpp
  void emit_sort(const ir::Op& op);

  // dot.cpp, scan.cpp, atomics.cpp
  void emit_dot(const ir::Op& op);
  // A factor on its way into fragments: in registers already, or in shared memory.
  struct MmaFactor {
    LinearLayout layout;
    int in_word = 1;                  // how many elements a word has
    Values elements;                  // by register of the fragments; null: not fetched yet
    Values stored;                    // the elements before the exchange
    const ir::Op* streamed = nullptr; // the load that brings them to shared memory part by part
    DType dtype{};
    std::optional<SharedExchange> exchange; // in one pass; none: the factor is in registers
    bool kept = false;                      // whether it was written to shared memory before the loop
    std::int64_t shared = 0;
    llvm::Value* own = nullptr;             // the thread's part of the offset of loads
    std::vector<std::pair<int, int>> found; // by register: the number of its load, and its position there
    std::vector<int> step;                  // by register: equal for those that are fetched together
    Values words;                           // by first register; null: not packed yet
    std::int64_t bytes() const { return (exchange->bytes + 127) / 128 * 128; }
  };
  void emit_mma(const ir::Op& op, const MmaFactors& kinds);
  MmaFactor mma_factor(const ir::Op& op, int which, const MmaFactors& kinds);
  void write_factor(MmaFactor& factor, std::int64_t shared);
  void stream_factor(MmaFactor& factor);
  void find_streams(const ir::Region& region);
  void share_factors(std::vector<MmaFactor>& factors);
  void keep_factors(const ir::Op& loop); // those that do not change in it
  llvm::Value* mma_word(MmaFactor& factor, int first);
  llvm::Value* mma_element(llvm::Value* v, DType t);
  class ScanEmitter; // scan.cpp
  void emit_scan(const ir::Op& op);
  void emit_atomic(const ir::Op& op);

  // debug.cpp
  void emit_assert(const ir::Op& op);
  void emit_print(const ir::Op& op);
  llvm::Value* printable(const ir::Type& type, llvm::Value* v, std::string& format);

  // control.cpp
  void emit_for(const ir::Op& op);
  void emit_while(const ir::Op& op);
  void emit_if(const ir::Op& op);
  std::optional<LinearLayout> carried_layout(const ir::Value* v); // none: a scalar
  Values flatten(const std::vector<const ir::Value*>& values, const std::vector<const ir::Value*>& places);
  void bind(const std::vector<const ir::Value*>& places, const Values& flat);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const ir::Kernel& kernel_;
  const LayoutPlan& plan_;
  Machine& machine_;
  const MachineMath math_;
  emit::NumberOptions numbers_;
  const bool debug_; // whether asserts are checked and instructions have source lines
  bool keep_lines_ = false;
  std::optional<emit::LineInfo> lines_;
  IRBuilder b_;
  ir::ArgumentLayout arguments_;
  passes::AxisInfos facts_;
  passes::NonNegativeScalars non_negative_;

  llvm::Function* function_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr; // values that are used anywhere are inserted before it
  Values coordinates_, grid_;
  llvm::Value *thread_ = nullptr, *lane_ = nullptr, *warp_ = nullptr, *overlap_ = nullptr;
  llvm::GlobalVariable* shared_ = nullptr;
  std::int64_t shared_bytes_ = 0, next_shared_ = 0;
  std::int64_t shared_floor_ = 0; // the bytes below hold kept factors

  std::unordered_map<const ir::Value*, int> uses_;
  std::unordered_map<const ir::Value*, llvm::Value*> scalars_;
  std::unordered_map<const ir::Value*, ViewFacts> views_;
  std::unordered_map<const ir::Value*, std::vector<Tile>> tiles_; // the first has the planned layout
  // Loaded tiles that are not unpacked yet.
  std::vector<std::pair<const ir::Value*, std::function<Values()>>> loaded_;
  std::vector<std::pair<std::pair<std::string, int>, llvm::Value*>> thread_parts_;
  struct KeptFactor {
    const ir::Value* value = nullptr;
    DType dtype{};
    MmaFactor factor;
  };
  std::vector<KeptFactor> kept_factors_; // of the loops around
  // Maps loads that only one product uses, and permutes between such a load and the product, to the load.
  // These loads go to shared memory part by part.
  std::unordered_map<const ir::Op*, const ir::Op*> streams_;
  Touches touched_;                    // since the last barrier
  std::vector<LoopStart> loop_starts_; // of the loops around
};

} // namespace kiln::gpu
