// What every elementwise operation computes on one element: SEMANTICS.md as code. The interpreter, the
// folding of constants and the checks at launch all evaluate through this one definition.
//
// An element is a Cell of 64 bits: integers sign- or zero-extended by their dtype, bool 0 or 1, floats their
// bits in the low end, pointers their address (dtype U64). All functions are pure and thread-safe.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>

namespace kiln::ir {

using Cell = std::uint64_t;

// The result of an elementwise operation on operands of dtype `t` (Select: the condition is `a`). Comparisons
// and predicates give 0 or 1. InternalError for an operation that `t` does not have.
Cell evaluate(Opcode code, DType t, Cell a, Cell b = 0, Cell c = 0);
bool can_evaluate(Opcode code, DType t);
// Conversions, which have two dtypes.
Cell evaluate_cast(DType from, DType to, Cell x);
Cell evaluate_bitcast(DType from, DType to, Cell x);

// Numbers to cells and back. `float_of` is exact; `cell_of_float` rounds once, to nearest even, and saturates
// for fp8; `cell_of_integer` wraps.
Cell cell_of_integer(DType t, std::int64_t value);
Cell cell_of_float(DType t, long double value);
long double float_of(DType t, Cell x);
// The number of a cell as an attribute of `constant` holds it, and back. NaN keeps its sign, not its payload.
Cell constant_cell(const Op& constant);
Attribute constant_attribute(DType t, Cell x);

// Memory: `address` need not be aligned. A byte other than 0 reads as true.
Cell load_cell(DType t, const void* address);
void store_cell(DType t, void* address, Cell x);

// The dtype that rules the cells of a value: pointers count as U64.
inline DType cell_dtype(const Type& type) { return type.pointer ? DType::U64 : type.dtype; }

// " < " and the like for comparisons, nothing for other operations.
std::string_view relation_text(Opcode code);

} // namespace kiln::ir
