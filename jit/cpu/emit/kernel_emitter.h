// Declares the class that lowers one tile IR kernel to LLVM IR for a CPU.
//
// Operations are emitted in program order; only lazy tiles (facts/plan.h) are evaluated later, inside the
// loop nests of the roots that need them. Consecutive roots over one domain share a nest where no dependence
// forbids it, which makes one pass of softmax's `exp` and `sum`. The member functions are defined in the
// files of this folder, by topic.
#pragma once

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/evaluate_tiles.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/dot/dot.h>
#include <kiln/jit/cpu/emit/emitter_state.h>
#include <kiln/jit/cpu/emit/nest.h>
#include <kiln/jit/cpu/emit/outline.h>
#include <kiln/jit/cpu/facts/array_sums.h>
#include <kiln/jit/cpu/facts/column_limit.h>
#include <kiln/jit/cpu/facts/grouped_product.h>
#include <kiln/jit/cpu/facts/needed_extents.h>
#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/cpu/target.h>
#include <kiln/jit/emit/atomics.h>
#include <kiln/jit/emit/elementwise.h>
#include <kiln/jit/emit/line_info.h>

#include <functional>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <optional>
#include <unordered_map>

namespace kiln::cpu {

struct EmitOptions {
  bool debug = false;                                           // emit asserts and bounds checks
  bool line_info = false;                                       // emit DWARF lines of the user's source
  std::int64_t deferred_columns = tuning::min_deferred_columns; // as in CompileOptions
};

class KernelEmitter {
public:
  KernelEmitter(llvm::Module& module, const ir::Kernel& kernel, const Target& target,
                const NumberOptions& numbers, const DotTarget& dot_target, const EmitOptions& options);
  void run();
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  const std::vector<Parts>& parts() const { return parts_; } // of the code that run() emits

private:
  // kernel_emitter.cpp: entry, regions and scalars
  void emit_entry();
  void load_parameters();
  Values coordinates_of(llvm::Value* number, const Values& grid);
  void emit_program(llvm::Value* program, Values coordinates);
  void emit_region(const ir::Region& region); // everything but the terminator
  void begin_part(Parts& parts);
  void emit_op(const ir::Op& op);
  void emit_scalar(const ir::Op& op);
  void copy_rows(const ir::Op& reshape);
  llvm::Value* scalar(const ir::Value* v);
  bool depends_on_pending(const ir::Op& op) const;
  void locate(const ir::Op& op);
  llvm::FunctionCallee hook(const char* name, llvm::Type* result, std::vector<llvm::Type*> parameters);
  llvm::Constant* text(std::string_view s);
  llvm::Constant* extents_table(const ir::Type& type);

  // control.cpp
  void emit_for(const ir::Op& op);
  void emit_own_for(const ir::Op& op); // even if a group of programs has computed its product
  void emit_while(const ir::Op& op);
  void emit_if_op(const ir::Op& op);
  void enter_carried(const ir::Op& op, int first_operand, const ir::Region& region);
  Values scalar_operands(const ir::Op& op, int first);
  void bind_scalar_args(const ir::Region& region, int first, const Values& values);
  void emit_tile_yields(const ir::Op& yield, const ir::Region& region, int first_arg);
  bool reads_buffer_of(const ir::Value* v, const ir::Value* arg, bool* moved) const;
  void forward_dots(const ir::Region& region, int first_arg);

  // buffers.cpp
  Buffer make_buffer(const ir::Type& type);
  Buffer make_buffer(DType dtype, bool pointer, std::vector<std::int64_t> extents);
  Buffer& own_buffer(const ir::Value* v); // created on first use
  Buffer materialize(const ir::Value* v); // its own buffer, or a temporary buffer that is filled here
  llvm::Value* stride_of(const Buffer& buffer, std::size_t axis);
  Values strides_of(const Buffer& buffer);
  llvm::Value* buffer_address(const Buffer& buffer, const Indices& at);
  llvm::Value* load_buffer(Nest& nest, const Buffer& buffer, const Indices& at);
  llvm::Value* load_and_pick(Nest& nest, const Buffer& buffer, const Indices& at);
  void store_buffer(Nest& nest, const Buffer& buffer, const Indices& at, llvm::Value* v);

  // element.cpp: lazy evaluation
  llvm::Value* element(Nest& nest, const ir::Value* v, const Indices& at);
  llvm::Value* element_before(Nest& nest, llvm::Instruction* place, const ir::Value* v, const Indices& at);
  llvm::Value* evaluate(Nest& nest, const ir::Op& op, const Indices& at);
  Values evaluate_combine(const ir::Region& region, const Values& arguments, bool keep_wide);

  // reshape.cpp
  class Reshape;
  Indices operand_indices(const ir::Op& op, const Indices& at);
  llvm::Value* reshaped(Nest& nest, const ir::Op& op, const Indices& at);
  llvm::Value* flat_element(Nest& nest, const ir::Value* x, const Index& number);

  // padded_rows.cpp: vectors that span several narrow rows with padding between them
  const ir::Op* load_of_rows(const ir::Op& reshape, const std::vector<std::int64_t>& domain) const;
  llvm::Value* rows_apart(Nest& nest, const ir::Op& reshape, const Indices& at);
  llvm::Value* load_runs(Nest& nest, DType dtype, llvm::Value* address, llvm::Value* stride, int width);
  llvm::Value* load_run(llvm::Value* into, llvm::Value* address, llvm::Align align, int lane, int count);
  bool store_runs(llvm::Value* bits, llvm::Value* address, llvm::Align align, llvm::Value* mask);
  // narrow_rows.cpp: vectors that span several narrow rows
  int width_of_narrow_rows(const Nest& nest) const;
  llvm::Value* narrow_rows(Nest& nest, const ir::Op& op, const Indices& at);
  llvm::Value* repeated_row(Nest& nest, const ir::Value* row, const Indices& at);
  llvm::Value* repeated_column(Nest& nest, const ir::Value* column, const Indices& at);

  // shared_functions.cpp: long operations as calls
  struct OperationKind { // what the code of an elementwise operation depends on
    ir::Opcode code;
    DType from, to;
    auto operator<=>(const OperationKind&) const = default;
  };
  static OperationKind kind_of(const ir::Op& op);
  void count_kinds();
  llvm::Function* shared_function(const ir::Op& op, const NumberOptions& numbers, const Values& operands);
  llvm::Value* elementwise(const ir::Op& op, const NumberOptions& numbers, const Values& operands);

  // memory.cpp: views and pointers
  struct Access {
    llvm::Value* address = nullptr; // the address of lane 0, or a vector of addresses
    int step = 1; // elements from one lane to the next; 0: a vector of addresses, or one for all lanes
    llvm::Value* stride = nullptr; // the step if it is no constant; `address` is then lane 0's, and `step` 0
    llvm::Value* mask = nullptr;   // the lanes that may be accessed; null: all
    int align = 0;                 // what addresses are multiples of, in bytes; 0: the size of an element
  };
  ViewFacts& facts(const ir::Value* view);
  Access view_access(Nest& nest, const ir::Op& op, const Indices& at, bool address_only = false);
  void limit_unless(Nest& nest, llvm::Value* inside);
  void limit_lanes(Nest& nest, llvm::Value* room, int divided_by = 0);
  void end_fast_part(Nest& nest, llvm::Value* first, llvm::Value* extent, int divided_by = 0);
  llvm::Value* mapped(const Index& index, llvm::Value* position, llvm::Value* extent);
  llvm::Value* mapped(const Nest& nest, const Access& access);
  llvm::Value* load_access(Nest& nest, const Access& access, DType t, const ir::Value* other,
                           const Indices& at);
  void store_access(Nest& nest, const Access& access, DType t, llvm::Value* value);
  std::optional<ColumnLimit> known_limit(const Nest& nest, const ir::Op& op, const Indices& at) const;
  bool holds_in_fast_part(Nest& nest, const ir::Op& op, const Indices& at);
  llvm::Value* lane_bounds(Nest& nest, const Index& index, llvm::Value* offset, llvm::Value* extent,
                           bool non_negative);
  llvm::Value* operand_element(Nest& nest, const ir::Value* v, const Indices& at);
  llvm::Value* zeros(); // the address of zero bytes, for masked loads that must not access their own
  llvm::Value* mask_and(llvm::Value* a, llvm::Value* b);
  llvm::Value* index_value(const Index& index, int lanes);
  bool is_only_multiplied_as_bf16(const ir::Value* v) const;

  // prefetch.cpp: prefetches of what loads read next
  void prefetch(Nest& nest, const ir::Op& load, const Access& access, const Indices& at);
  bool fills_operand_of_dot(const Nest& nest, const ir::Op& load) const;
  void prefetch_ahead(Nest& nest, const ir::Op& load, const Access& access);
  bool prefetches_tile_below(const Nest& nest, const ir::Op& load);
  void prefetch_below(int lanes, const ir::Op& load, const Access& access, const Indices& at);
  void discard_prefetches(Prefetches& made);
  void finish_prefetches();
  std::int64_t program_bytes() const;
  llvm::Value* index_constant(std::int64_t n);
  llvm::Value* bytes_ahead(const ir::Value* view);

  // gather.cpp: accesses at computed indices and addresses
  static int axis_of_lanes(const Indices& at);
  static Indices first_lane(Indices at);
  bool ends_fast_part(Nest& nest, const ir::Value* index, std::int64_t step, int axis, const Indices& at,
                      llvm::Value* extent);
  Access gather_access(Nest& nest, const ir::Op& op, const Indices& at);
  Access pointer_access(Nest& nest, const ir::Op& op, const Indices& at);
  static int chosen_step(const ir::Op& op, std::int64_t step, llvm::Value* mask);
  llvm::Value* load_steps(Nest& nest, const Access& access, llvm::Type* element, llvm::Align align);
  llvm::Value* load_apart(Nest& nest, const Access& access, llvm::Type* element, llvm::Align align);
  Values addresses_apart(Nest& nest, const Access& access, llvm::Type* element);
  void store_apart(Nest& nest, const Access& access, llvm::Value* bits, llvm::Align align);

  // lookup.cpp: elements of tiles by index, histograms
  llvm::Value* gathered(Nest& nest, const ir::Op& op, const Indices& at);
  void emit_histogram(const ir::Op& op);

  // sort.cpp
  class Sorter;
  void emit_sort(const ir::Op& op);

  // nest.cpp: loops over a domain
  bool can_join(const Root& root) const;
  void add_root(Root root);
  void flush();
  bool evaluates_functions(const Nest& nest) const; // functions such as exp
  void emit_nest(std::vector<Root> roots, const std::vector<std::int64_t>& domain);
  Values store_bounds(const Nest& nest);
  bool reads_own_rows(const Nest& nest, const ir::Value* v) const;
  void flatten_fills(Nest& nest) const;
  void emit_loops(Nest& nest);
  void emit_outer(Nest& nest, std::size_t k, Indices& at);
  llvm::Value* destination_address(const Root& root, const Indices& at);
  void emit_roots(Nest& nest, const Indices& at, Accumulators* accumulators);
  void emit_each_element(const std::vector<std::int64_t>& domain,
                         llvm::function_ref<void(Nest&, const Indices&)> body);
  using Visited = std::set<std::pair<const ir::Value*, bool>>; // so that walks visit shared operands once
  bool touches_pending(const ir::Value* v, bool identity) const;
  bool touches_pending(const ir::Value* v, bool identity, Visited& seen) const;

  // needed_extents.cpp: loops that leave out rows that nothing needs
  llvm::Value* place_of_program(const ir::Value* v, int depth = 0);
  template <class Each, class Room> llvm::Value* most_room(const Each& each, Room room_of);
  llvm::Value* needed_room(const ir::Value* tile, std::size_t axis);
  llvm::Value* needed_room(const Root& root, std::size_t axis);
  llvm::Value* needed_extent(const ir::Value* tile, std::size_t axis, llvm::Value* extent);
  void bound_rows(Nest& nest);

  // transposed_loads.cpp: loads that are contiguous along the loop around the vector loop
  llvm::Value* find_transposed_accesses(Nest& nest);
  llvm::Value* transposed_load(Nest& nest, const ir::Op& op, const Indices& at);
  llvm::Constant* first_lanes(std::size_t count, std::size_t lanes);
  bool interleaves(const Nest& nest) const;
  llvm::Value* follows(const Nest& nest, llvm::Value* stride);
  Values load_interleaved(Nest& nest, const ir::Op& op, llvm::Value* address);
  Values load_lines(Nest& nest, const ir::Op& op, llvm::Value* address, llvm::Value* stride);

  // transposed_stores.cpp: stores that are contiguous along the loop around the vector loop
  bool transposed_store(Nest& nest, const ir::Op& op, const Indices& at, llvm::Value* v);
  void store_lines(Nest& nest, const ir::Value* view, Values rows, llvm::Value* address, llvm::Value* stride);
  void store_interleaved(const ir::Value* view, const Values& rows, llvm::Value* address);
  void store_streaming(const ir::Value* view, const Values& vectors, const Values& addresses,
                       llvm::Value* stride);

  // out_of_bounds.cpp: elements past the ends of all views
  class SameOutOfBounds;
  bool fails_out_of_bounds(const Nest& nest, const ir::Value* mask, const Indices& at, int depth = 0);
  llvm::Value* room_after(const Nest& nest, const ir::Value* v, std::set<const ir::Value*>& seen);
  llvm::Value* value_out_of_bounds(Nest& nest, const ir::Op& op, const Indices& at);

  // vector_level.cpp: the loop over the vector axis
  class VectorLevel;
  void emit_vector_level(Nest& nest, Indices& at);
  struct Streaming {
    llvm::Value* holds = nullptr; // i1: the vectors of this row are stored by non-temporal stores
    llvm::Value* first = nullptr; // the first column at an aligned address; null: column 0 is
    int line = 1;                 // columns of a line, of which only whole ones are stored so
  };
  bool begins_anywhere(const ir::Value* v, Visited& seen) const;
  llvm::Value* is_large(const ir::Value* view);
  std::optional<Streaming> may_stream(Nest& nest, const Indices& at);
  llvm::Value* vector_end(Nest& nest, llvm::Value* first, std::int64_t most, std::int64_t step);

  // deferral.cpp: the last store of a program, carried out during the next program
  const ir::Op* deferrable_store() const;
  void prepare_deferral();
  void choose_scratch();
  llvm::Value* defer_row(Nest& nest, llvm::Value* first_column, int line,
                         llvm::function_ref<void(llvm::Value* column, llvm::Instruction* before)> step);
  void keep_operands();
  void emit_deferred_row(llvm::Value* limit);
  void finish_deferral();

  // reduce.cpp
  Accumulators initial_accumulators(Nest& nest);
  void accumulate(Nest& nest, const Root& root, const Indices& at, Accumulator& accumulator);
  Accumulator merge(Nest& nest, const Root& root, const Accumulator& a, const Accumulator& b);
  Accumulator fold_half(Nest& nest, const Root& root, const Accumulator& running);
  bool folds_whole_registers(const llvm::Value* values, const ir::Op& op) const;
  void finish_reduction(Nest& nest, const Root& root, Accumulator accumulator, const Indices& at);

  // scan.cpp
  void emit_scan(const ir::Op& op);
  void advance_scan(Nest& nest, const Root& root, const Indices& at, Accumulator& running);

  // nest_local.cpp: tiles that only their own nest reads
  bool is_read_elsewhere(const ir::Value* v, const std::vector<Root>& roots) const;
  void drop_nest_local_fills(std::vector<Root>& roots) const;

  // store.cpp
  void emit_store(const ir::Op& op);
  struct Hazard {                  // of a store whose value reads memory that the store may overwrite
    bool aside = false;            // the whole value must be computed before the first element is stored
    llvm::Value* direct = nullptr; // i1, otherwise: elements may be stored as they are computed; null: always
  };
  Hazard hazard_of(const ir::Op& store);
  bool joins_scan(const Root& store, const std::vector<std::int64_t>& domain);
  bool stores_rows(const ir::Op& store) const;
  void emit_with_pending(const Root& root, const std::vector<std::int64_t>& domain);
  void put_places_aside(const ir::Op& store);
  void store_aside(Root root);
  void store_unless_overlapping(Root root, llvm::Value* direct);
  void store_by_branch(Root root, const Buffer& aside);
  struct LazyRead {
    const ir::Op* op;
    bool identity;
  };
  void lazy_reads(const ir::Value* v, bool identity, std::vector<LazyRead>& into) const;
  void lazy_reads(const ir::Value* v, bool identity, std::vector<LazyRead>& into, Visited& seen) const;
  void lazy_reads(const ir::Op& op, bool identity, std::vector<LazyRead>& into, Visited& seen) const;
  llvm::Value* disjoint(const ir::Value* a, const ir::Value* b);
  llvm::Value* same_view(const ir::Value* a, const ir::Value* b);
  llvm::Value* distinct_elements(const ir::Value* view);

  // atomics.cpp
  llvm::Value* emit_atomic_add(const AtomicAccess& how, llvm::Value* address, llvm::Value* operand);
  void emit_atomic(const ir::Op& op);
  void emit_updates(const ir::Op& op, bool plain);
  void update(Nest& nest, const ir::Op& op, const Indices& at, bool plain);
  llvm::Value* update_element(Nest& nest, const ir::Op& op, const Indices& at, llvm::Value* address,
                              llvm::Value* operand);
  llvm::Value* update_access(Nest& nest, const ir::Op& op, const Indices& at, const Access& access,
                             bool plain);
  llvm::Value* update_groups(const ir::Op& op, llvm::Value* address, llvm::Value* operand, int lanes);
  llvm::Value* update_lanes(Nest& nest, const ir::Op& op, const Indices& at, const Access& access,
                            llvm::Value* operand);

  // array_sums.cpp: sums into a thread's own copy of an array
  void prepare_array_sums();
  void finish_array_sums();
  const OwnCopy* own_copy(const ir::Op& atomic) const;

  // plain_updates.cpp: atomic operations as loads and stores
  void begin_updates();
  void end_updates();
  llvm::Value* may_be_plain(const ir::Op& atomic);
  llvm::Value* update_plainly(Nest& nest, const ir::Op& atomic, const Indices& at, const Access& access,
                              llvm::Value* operand);

  // dot.cpp
  void emit_dot(const ir::Op& op);
  std::optional<Buffer> join_pending(const ir::Value* operand);
  void add_converted(const ir::Op& dot, const Buffer& sums);
  struct Matrix {
    llvm::Value* pointer = nullptr;
    Values strides; // per axis
    Values valid;   // per axis: the elements that exist
    DotStrides known = DotStrides::Any;
    llvm::Value* to_next = nullptr; // bytes to what the loop's next iteration reads; null: unknown
  };
  bool limit_by_mask(const ir::Value* mask, const std::vector<int>& axes, Values& extents,
                     llvm::Value*& wraps);
  Matrix operand_matrix(const ir::Value* v);
  Matrix buffer_matrix(const Buffer& buffer);
  Matrix transposed_matrix(const Buffer& buffer, const std::vector<std::size_t>& order);
  bool loads_rows(const ir::Value* v) const;
  Matrix view_matrix(const ir::Op& load, const std::vector<std::size_t>& order, const Values& extents);
  struct Sums { // the sums of products, and where they are stored
    llvm::Value* pointer;
    DType dtype;
    Values strides; // the last is 1
    Values extents; // the extents of the result; zero where the operands lack elements
    bool accumulate;
    llvm::Value *rounded = nullptr,
                *rounded_row_stride = nullptr; // unless null, rounded sums are stored there instead
  };
  Sums sums_in(const Buffer& buffer, bool accumulate);
  DotShape dot_shape(const ir::Op& dot);
  Values constants(const std::vector<std::int64_t>& numbers);
  void keep_needed_rows(const ir::Value* product, Matrix& a, Sums& sums);
  void multiply(DotShape shape, const Matrix& a, const Matrix& b, const Sums& sums);
  void zero_missing(llvm::Value* m, llvm::Value* n, llvm::Value* missing_batch, const Sums& sums);

  // next_tile.cpp: what the next iteration of a loop reads
  struct CurrentLoop {
    const ir::Value* index;
    llvm::Value* next; // the index of the next iteration
  };
  llvm::Value* next_scalar(const ir::Value* v, std::unordered_map<const ir::Value*, llvm::Value*>& known);
  llvm::Value* bytes_to_next_tile(const ir::Op& load);
  struct NextIteration { // what the indices of a gather are computed from
    std::unordered_map<const ir::Value*, llvm::Value*> scalars;
    std::vector<std::pair<const ir::Value*, llvm::Value*>> changed; // scalars, and their next values
    std::vector<const ir::Value*> buffered;                         // tiles
    std::set<const ir::Value*> seen;
  };
  bool follow_to_next(const ir::Value* v, NextIteration& next);
  void prefetch_next_row(Nest& nest, const ir::Op& load, const Indices& at);

  // product.cpp: loops over K, and products that programs share
  bool take_shared_sums(const ir::Op& loop);
  void emit_product_loop(const ProductLoop& product);
  void emit_in_chunks(const ProductLoop& product, llvm::Value* begin, llvm::Value* depth, const Buffer& sums);
  struct Gathered { // computed operands in scratch
    Buffer a, b;
    std::int64_t depth = 0; // largest extent of K
  };
  Gathered make_gathered(const ProductLoop& product, std::int64_t rows, std::int64_t columns);
  void emit_chunks(const Gathered& gathered, llvm::Value* begin, llvm::Value* depth,
                   llvm::function_ref<void(llvm::Value* first, llvm::Value* steps)> body);
  void gather(const ProductLoop& product, const ProductOperand& operand, std::size_t k_axis,
              const Buffer& buffer, llvm::Value* place, llvm::Value* first, llvm::Value* steps);
  Matrix chunk_matrix(const ProductOperand& operand, std::size_t k_axis, const Buffer& gathered,
                      llvm::Value* steps, llvm::Value* other_extent);
  llvm::Value* product_depth(const ProductLoop& product);
  void enter_product(const ProductLoop& product, llvm::Value* index);
  Matrix plain_matrix(const ProductOperand& operand, std::size_t k_axis, llvm::Value* depth,
                      llvm::Value* other_extent = nullptr);
  void emit_group(llvm::Value* group);
  void emit_rectangle(const Values& first, llvm::Value* count_m, llvm::Value* count_n,
                      llvm::function_ref<Values(llvm::Value* m, llvm::Value* n)> coordinates);
  Buffer make_sums(DType dtype, llvm::Value* columns);
  struct Rectangle { // a rectangle of programs
    Values first;    // coordinates of the program at its corner, whose sums come first
    llvm::Value *count_m, *count_n;
    llvm::Value *rows, *columns; // extents of the sums that they share
    llvm::function_ref<Values(llvm::Value* m, llvm::Value* n)> coordinates;
  };
  void enter_program(const Values& coordinates);
  void emit_shared_products(const Rectangle& programs);
  void emit_shared_product(const ProductLoop& product, const Buffer& buffer, const Rectangle& programs);
  llvm::Value* needed_rows_of_group(const ProductLoop& product, const Rectangle& programs);
  void emit_shared_chunks(const ProductLoop& product, const Buffer& buffer, const Rectangle& programs,
                          Sums sums, llvm::Value* begin, llvm::Value* depth);
  void multiply_for_group(const ProductLoop& product, const Buffer& buffer, std::int64_t most_depth,
                          const Matrix& a, const Matrix& b, const Sums& sums);
  llvm::Value* stores_sums();
  void store_there(const ProductLoop& product, const Buffer& buffer, llvm::Value* depth, Sums& sums);
  DotShape group_shape(const ProductLoop& product, const Buffer& sums, std::int64_t most_depth);
  llvm::Value* rows_of_launch(const ProductLoop& product);

  // program_group.cpp: groups of programs that compute the positions of their tiles
  void emit_group_at_computed_places(const Values& first, llvm::Value* count);

  // debug.cpp
  void emit_dense(const ir::Value* v, llvm::Value* pointer,
                  const std::function<llvm::Value*(Nest&, const Indices&, llvm::Value*)>& change);
  const ir::Op* comparison_of(const ir::Value* condition) const;
  void emit_assert(const ir::Op& op);
  void emit_print(const ir::Op& op);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const ir::Kernel& kernel_;
  const Target& target_;
  NumberOptions numbers_;
  DotTarget dot_target_;
  EmitOptions options_;
  Plan plan_;
  NeededExtents needed_;
  passes::NonNegativeScalars non_negative_; // scalars that are never negative
  std::optional<GroupedProduct> grouped_;
  IRBuilder b_;
  ir::ArgumentLayout layout_;

  llvm::Function* function_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr; // values that are valid for the whole call are inserted before it
  llvm::Value* launch_context_ = nullptr;
  llvm::Value* nowhere_ = nullptr; // the address of accesses whose lanes are all masked off
  llvm::Value *whole_scratch_ = nullptr, *scratch_ = nullptr; // the worker's scratch, and this program's
  llvm::Value* program_ = nullptr;
  Values coordinates_, grid_;
  ProgramGroup group_;
  unsigned shared_along_ = 0; // axes of the grid along which the programs of a group share the current tile
  std::int64_t scratch_bytes_ = 0;
  bool streams_ = false; // some store may bypass the caches

  std::unordered_map<const ir::Value*, llvm::Value*> scalars_;
  std::unordered_map<const ir::Value*, ViewFacts> views_;
  std::unordered_map<const ir::Value*, Buffer> buffers_;
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_;
  std::unordered_map<const ir::Op*, const ir::Value*>
      dot_target_arg_;                                // dots that accumulate in the buffer of a carried tile
  std::unordered_map<const ir::Op*, int> times_read_; // by how many finished nests of this program
  std::unordered_map<const ir::Op*, Prefetches> prefetches_; // of the tile below the one that is loaded
  std::vector<llvm::WeakVH> unwanted_prefetches_;
  std::map<OperationKind, int> kinds_; // the number of operations of each kind in the kernel
  std::map<std::tuple<OperationKind, int, bool>, llvm::Function*> shared_functions_; // null: they are inlined
  llvm::Value* sole_answer_ = nullptr; // of begin_updates_hook; null: the kernel has no atomic operations
  llvm::Value* sole_ = nullptr;        // i1: all atomic operations may be plain; null: none may
  ArraySums array_sums_;
  std::unordered_map<const ir::Value*, OwnCopy> own_copies_;
  Deferral deferral_;
  std::vector<CurrentLoop> loops_; // the loops around what is being emitted, without products
  int region_depth_ = 0;
  std::vector<Parts> parts_;    // of each region; those of inner regions come first
  Parts* open_parts_ = nullptr; // of the region that is being emitted
  int scope_ = 0;               // the current scope: a region, or an alternative of a store; 0: the function
  int scopes_ = 0;              // number of scopes so far
  std::vector<Root> pending_;
  std::vector<std::int64_t> pending_domain_;
  int pending_size_ = 0; // of their code, in additions

  std::optional<LineInfo> lines_;
};

} // namespace kiln::cpu
