// The narrow waist between the language's templates and the recorder: everything here is compiled once, in
// the library.
//
// A Handle names a value of the kernel being recorded. It may outlive its recording; using it then is an
// error that names both kernels.
#pragma once

#include <kiln/dsl/dim.h>
#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/ops.h>

#include <initializer_list>
#include <source_location>

namespace kiln::ir {
struct Value;
} // namespace kiln::ir

namespace kiln::detail {

using Location = std::source_location;

struct Handle {
  ir::Value* value = nullptr;
  const char* kernel = nullptr; // interned: the kernel it belongs to
  std::uint32_t recording = 0;  // which recording of that kernel
  std::uint32_t scope = 0;      // the region in which the value is visible
};

struct HandleSpan {
  const Handle* data = nullptr;
  int size = 0;
  HandleSpan() = default;
  HandleSpan(const Handle* first, int count) : data(first), size(count) {}
  // For calls only: the list lives as long as the call's full expression.
  HandleSpan(std::initializer_list<Handle> list) {
    data = list.begin();
    size = static_cast<int>(list.size());
  }
};

// A type as the templates know it: constant data, so that passing one costs nothing.
struct TypeInfo {
  DType dtype;
  bool pointer;
  bool readonly;
  int rank;
  const DimInfo* const* dims;
};

struct AttributeInfo {
  const char* name;
  std::int64_t integer = 0;
  const char* text = nullptr;
  const int* list = nullptr; // a list of `integer` numbers
  const DimInfo* dim = nullptr;
  const double* real = nullptr;
};
using AttributeList = std::initializer_list<AttributeInfo>;

// What a parameter of a kernel is; see record.h.
struct ParameterInfo {
  enum class Kind : std::uint8_t { View, Scalar, Pointer };
  static constexpr int not_pinned = -1;

  Kind kind;
  DType dtype;
  bool readonly;
  int rank;   // views
  int layout; // views: a LayoutClass, or not_pinned
};

// The region that is being recorded now, and the location of the last named operation.
std::uint32_t current_scope();
void set_location(Location loc);
// The error of `tile = value` where the tile belongs to an outer region.
[[noreturn]] void assigned_in_region();

// A scalar constant. UserError if an integer dtype cannot hold the number.
Handle emit_integer(DType t, std::int64_t value);
Handle emit_unsigned(DType t, std::uint64_t value);
Handle emit_float(DType t, double value);

// One operation with one result. Pure operations that were recorded before in this region or around it are
// reused.
Handle emit(ir::Opcode code, HandleSpan operands, const TypeInfo& result, AttributeList attributes = {});
void emit_effect(ir::Opcode code, HandleSpan operands, AttributeList attributes = {});
// Casts the operands to `compute` (conditions and pointers excepted), broadcasts them to the result's shape,
// and applies.
Handle emit_elementwise(ir::Opcode code, HandleSpan operands, DType compute, const TypeInfo& result,
                        Location at = {});
Handle emit_cast(Handle x, DType to);
Handle emit_broadcast(Handle x, const TypeInfo& result); // shape only
// Casts to the type's dtype and broadcasts to its shape.
Handle emit_convert(Handle x, const TypeInfo& to);

// A tile of a view: one offset per view axis, and the view axes that the tile has. Or single elements of a
// view: one tile of indices per view axis.
struct TileAccess {
  Handle view;
  const Handle* offsets;
  int rank;
  const int* axes;
  int tile_rank;
  bool elements;
};
// Mask and other may be null.
Handle emit_view_load(const TileAccess& at, const Handle* mask, const Handle* other, const TypeInfo& result);
void emit_view_store(const TileAccess& at, Handle value, const Handle* mask, const TypeInfo& tile);
Handle emit_view_ptrs(const TileAccess& at, const TypeInfo& result);
Handle emit_view_mask(const TileAccess& at, const TypeInfo& result);
// ViewExtent or ViewStride. UserError if the view has no such axis; a negative axis counts from the last.
Handle emit_view_fact(ir::Opcode code, Handle view, int axis);
// ProgramId or NumPrograms. UserError if no grid has such an axis.
Handle emit_grid_fact(ir::Opcode code, int axis);
// Raw memory; `tile` is the type of the loaded, stored or exchanged values.
Handle emit_load(Handle pointers, const Handle* mask, const Handle* other, const TypeInfo& tile,
                 const char* cache);
void emit_store(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile);
Handle emit_atomic(Handle pointers, Handle value, const Handle* mask, const TypeInfo& tile, const char* kind,
                   const char* order, const char* scope);
Handle emit_atomic_cas(Handle pointers, Handle expected, Handle desired, const Handle* mask,
                       const TypeInfo& tile, const char* order, const char* scope);

// Defines the grid; writes one offset per dimension.
void emit_program_tile(Handle view, const DimInfo* const* dims, int count, Handle* offsets);
// The size of a dimension in the config being recorded for.
std::int64_t bound_value(const DimInfo& dim);

// Ready-made reductions and scans along `axis`; the operand and the result have the dtype of `result`.
Handle emit_reduce(ir::Opcode combine, Handle x, int axis, const TypeInfo& result);
Handle emit_arg_reduce(ir::Opcode compare, Handle x, int axis, const DimInfo& extent, const TypeInfo& result);
Handle emit_scan(ir::Opcode combine, Handle x, int axis, bool reverse, const TypeInfo& result);

// Assignable variables.
std::uint64_t variable_create(Handle initial);
void variable_destroy(std::uint64_t id) noexcept;
Handle variable_read(std::uint64_t id);
void variable_assign(std::uint64_t id, Handle value);

// An operation with regions, while it is being recorded: for each region `enter`, record, `leave`; then
// `finish`. Assignable variables that a region assigns become carried values here. If an exception passes,
// the operation is dropped.
class RegionOp {
public:
  // For: operands lower, upper, step. While: none. If: the condition. Reduce, Scan: none; `initial` are the
  // tiles.
  RegionOp(ir::Opcode code, HandleSpan operands, HandleSpan initial);
  ~RegionOp();
  RegionOp(const RegionOp&) = delete;

  void enter(Handle* arguments);
  void leave(HandleSpan yielded);
  void finish(const TypeInfo* const* result_types, int count, Handle* results, AttributeList attributes = {});

private:
  struct Impl;
  Impl* impl_;
};

} // namespace kiln::detail
