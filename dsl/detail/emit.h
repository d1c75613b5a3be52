// Declares the functions that the templates of the language call to record operations. These functions are
// not templates: they are compiled once, in the library.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dim.h>
#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/ops.h>

#include <initializer_list>
#include <source_location>

namespace kiln::ir {
struct Value;
} // namespace kiln::ir

KILN_API_BEGIN
namespace kiln::detail {

using Location = std::source_location;

// Refers to a value of the kernel that is being recorded. A Handle may outlive its recording; using it then
// throws a UserError that names both kernels.
struct Handle {
  ir::Value* value = nullptr;
  const char* kernel = nullptr; // the interned name of the kernel that it belongs to
  std::uint32_t recording = 0;  // the number of the recording
  std::uint32_t scope = 0;      // the number of the region in which the value is visible
};

struct HandleSpan {
  const Handle* data = nullptr;
  int size = 0;
  HandleSpan() = default;
  HandleSpan(const Handle* first, int count) : data(first), size(count) {}
  // Only for arguments of calls, because the list is destroyed after the full expression.
  HandleSpan(std::initializer_list<Handle> list) {
    data = list.begin();
    size = static_cast<int>(list.size());
  }
};

// The type of a value as constant data, which templates pass by reference without any cost.
struct TypeInfo {
  DType dtype;
  bool pointer;
  bool readonly;
  int rank;
  const DimInfo* const* dims;
};

// An attribute of an operation. The member that is set determines its kind; if only `integer` is set, it is
// an integer.
struct AttributeInfo {
  const char* name;
  std::int64_t integer = 0;
  const char* text = nullptr;
  const int* list = nullptr; // a list of `integer` numbers
  const DimInfo* dim = nullptr;
  const double* real = nullptr;
};
using AttributeList = std::initializer_list<AttributeInfo>;

// Describes a parameter of a kernel; see recipe.h.
struct ParameterInfo {
  enum class Kind : std::uint8_t { View, Scalar, Pointer };
  static constexpr int not_pinned = -1;

  Kind kind;
  DType dtype;
  bool readonly;
  int rank;   // of a view
  int layout; // of a view: a LayoutClass, or not_pinned
};

// Returns the number of the region that is being recorded, or 0 outside of recordings.
std::uint32_t current_scope();
// Sets the location of the operations that are recorded next.
void set_location(Location loc);
// Throws the UserError about `tile = value` in a region, if the tile belongs to an outer region.
[[noreturn]] void assigned_in_region();

// Record a scalar constant. They throw UserError if an integer dtype cannot hold the number.
Handle emit_integer(DType t, std::int64_t value);
Handle emit_unsigned(DType t, std::uint64_t value);
Handle emit_float(DType t, double value);

// Records an operation with one result. If an equal pure operation was recorded before, in this region or in
// one around it, its result is returned instead.
Handle emit(ir::Opcode code, HandleSpan operands, const TypeInfo& result, AttributeList attributes = {});
// Records a dot with these values of its attributes. `sum_order` is null for any order.
Handle emit_dot(HandleSpan operands, const TypeInfo& result, const char* precision, const char* sum_order);
// Records an operation without results.
void emit_effect(ir::Opcode code, HandleSpan operands, AttributeList attributes = {});
// Casts the operands to `compute` (except conditions and pointers), broadcasts them to the shape of the
// result, and records the operation on them.
Handle emit_elementwise(ir::Opcode code, HandleSpan operands, DType compute, const TypeInfo& result,
                        Location at = {});
Handle emit_cast(Handle x, DType to);
// Broadcasts to the shape of `result` and keeps the dtype.
Handle emit_broadcast(Handle x, const TypeInfo& result);
// Casts to the dtype of `to` and broadcasts to its shape.
Handle emit_convert(Handle x, const TypeInfo& to);

// An access to a tile of a view: `offsets` has one offset for each axis of the view, and the tile has some of
// the axes of the view. If `elements` is true, it is an access to single elements instead: `offsets` has one
// tile of indices for each axis of the view.
struct TileAccess {
  Handle view;
  const Handle* offsets;
  int rank;
  const int* axes;
  int tile_rank;
  bool elements;
};
// The mask and `other` may be null.
Handle emit_view_load(const TileAccess& at, const Handle* mask, const Handle* other, const TypeInfo& result);
void emit_view_store(const TileAccess& at, Handle value, const Handle* mask, const TypeInfo& tile);
Handle emit_view_ptrs(const TileAccess& at, const TypeInfo& result);
Handle emit_view_mask(const TileAccess& at, const TypeInfo& result);
// Records a ViewExtent or ViewStride. A negative axis counts from the last one. Throws UserError if the view
// has no such axis.
Handle emit_view_fact(ir::Opcode code, Handle view, int axis);
// Record a ViewSlice and a ViewOf. `strides` may be null: the view is then contiguous. They throw UserError
// for an axis that the view does not have, and for constant extents and bounds that are negative.
Handle emit_view_slice(Handle view, int axis, Handle begin, Handle end);
Handle emit_view_of(Handle pointer, const Handle* extents, const Handle* strides, int rank);
// Records a load of numbers of the dtype of `result` from adjacent elements of the view or behind the
// pointers. `at` has the type of the narrow elements. Throws UserError if the last axis of the view is known
// to have gaps.
Handle emit_view_load_as(const TileAccess& at, const Handle* mask, const TypeInfo& element,
                         const TypeInfo& pointer, const TypeInfo& result);
Handle emit_load_as(Handle pointers, const Handle* mask, const Handle* other, const TypeInfo& pointer,
                    const TypeInfo& result);
// Records a ProgramId or NumPrograms. Throws UserError if no grid has such an axis.
Handle emit_grid_fact(ir::Opcode code, int axis);
// Record accesses through pointers. `tile` is the type of the values that are loaded, stored or exchanged.
Handle emit_load(Handle pointers, const Handle* mask, const Handle* other, const TypeInfo& tile,
                 const char* cache);
void emit_store(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile);
Handle emit_atomic(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile, const char* kind,
                   const char* order, const char* scope);
Handle emit_atomic_cas(Handle pointers, Handle expected, Handle desired, const Handle* mask,
                       const TypeInfo& tile, const char* order, const char* scope);

// Defines the grid of the kernel, and writes `count` offsets of the program's tile to `offsets`. dims[i] is
// the extent of the tile along axis axes[i] of the view.
void emit_program_tile(Handle view, const DimInfo* const* dims, const int* axes, int count, Handle* offsets);
// Returns the size of a dimension in the config that the kernel is recorded for.
std::int64_t bound_value(const DimInfo& dim);

// Record a reduction or scan along `axis` with one operation as its combine. The operand is cast to the dtype
// of `result`, except for arg_reduce, whose result is i32.
Handle emit_reduce(ir::Opcode combine, Handle x, int axis, const TypeInfo& result);
Handle emit_arg_reduce(ir::Opcode compare, Handle x, int axis, const DimInfo& extent, const TypeInfo& result);
Handle emit_scan(ir::Opcode combine, Handle x, int axis, bool reverse, const TypeInfo& result);

// Record a gather along `axis`. Indices of rank 1 are the same along all other axes of the result; others are
// broadcast to it. emit_positions takes the positions first, first + 1, ... or, backwards, first, first - 1,
// ... as indices; `first` is an integer scalar.
Handle emit_gather(Handle tile, Handle indices, int axis, const TypeInfo& result);
Handle emit_positions(Handle tile, Handle first, bool backwards, int axis, const TypeInfo& result);
// Records the extent minus one.
Handle emit_last_index(const DimInfo& extent);
// Throws UserError if a position that is known while recording cannot be on an axis of this extent.
void check_position(const char* function, std::int64_t position, const DimInfo& extent);
// Throws UserError if a part that is known while recording begins or ends outside of the axis.
void check_part(const char* function, std::int64_t start, const DimInfo& size, const DimInfo& extent);
// Records a sort. Writes the sorted elements and their indices to `results`.
void emit_sort(Handle tile, int axis, bool descending, const TypeInfo& sorted, Handle* results);
// Records a histogram. The mask may be null.
Handle emit_histogram(Handle tile, const Handle* mask, const TypeInfo& bins);

// Create, destroy, read and assign the variable of a Var.
std::uint64_t variable_create(Handle initial);
void variable_destroy(std::uint64_t id) noexcept;
Handle variable_read(std::uint64_t id);
void variable_assign(std::uint64_t id, Handle value);

// Records an operation with regions: for each region call `enter`, record its operations, and call `leave`;
// then call `finish`. Vars that a region assigns become carried values of the operation. If an exception is
// thrown in between, the operation is discarded.
class RegionOp {
public:
  // The operands of For are the lower bound, the upper bound and the step; that of If is the condition; all
  // others have none. `initial` holds the initial values of a loop, or the tiles of a Reduce or Scan.
  RegionOp(ir::Opcode code, HandleSpan operands, HandleSpan initial);
  ~RegionOp();
  RegionOp(const RegionOp&) = delete;

  void enter(Handle* arguments);
  void leave(HandleSpan yielded);
  void finish(const TypeInfo* const* result_types, int count, Handle* results, AttributeList attributes = {});

private:
  struct KILN_INTERNAL Impl;
  Impl* impl_;
};

} // namespace kiln::detail
KILN_API_END
