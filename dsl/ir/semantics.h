// Defines what every elementwise operation computes for one element. It is SEMANTICS.md as code: the
// interpreter, constant folding and the checks at launch all use it.
//
// An element is a Cell of 64 bits. It holds an integer sign- or zero-extended by its dtype, a bool as 0 or 1,
// the bits of a float in its low end, or the address of a pointer (with dtype U64). All functions are pure
// and thread-safe.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>

namespace kiln::ir {

using Cell = std::uint64_t;

// The result of an elementwise operation on operands of dtype `t`. For Select, `a` is the condition.
// Comparisons and predicates give 0 or 1. InternalError if the operation is not defined for `t`, which
// can_evaluate says.
Cell evaluate(Opcode code, DType t, Cell a, Cell b = 0, Cell c = 0);
bool can_evaluate(Opcode code, DType t);
// The conversions, which have two dtypes.
Cell evaluate_cast(DType from, DType to, Cell x);
Cell evaluate_bitcast(DType from, DType to, Cell x);

// Convert numbers to cells and back. `cell_of_integer` wraps. `cell_of_float` rounds once, to nearest with
// ties to even, and saturates for fp8. `float_of` is exact.
Cell cell_of_integer(DType t, std::int64_t value);
Cell cell_of_float(DType t, long double value);
long double float_of(DType t, Cell x);
// The cell of a `constant` operation, and the attribute `value` for a cell. A NaN keeps its sign but not its
// payload.
Cell constant_cell(const Op& constant);
Attribute constant_attribute(DType t, Cell x);

// Read and write memory. `address` need not be aligned. As a bool, every byte other than 0 reads as true.
Cell load_cell(DType t, const void* address);
void store_cell(DType t, void* address, Cell x);

// The dtype of the cells of a value, which is U64 for pointers.
inline DType cell_dtype(const Type& type) { return type.pointer ? DType::U64 : type.dtype; }

// " < " and so on for comparisons; empty for other operations.
std::string_view relation_text(Opcode code);

} // namespace kiln::ir
