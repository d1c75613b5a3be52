// Converts elements from memory into what the microkernel multiplies, one value or a vector at a time.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

#include <array>

namespace kiln::cpu::dot {

// The type an element is loaded as: its float or integer type, or plain bits for 16- and 8-bit floats.
llvm::Type* memory_type(Builder& b, DType t);

// The type of one packed element: float, double, or a part of a group: i16, i8.
llvm::Type* panel_element_type(Builder& b, PanelKind panel);

// {x[0], y[0], x[1], y[1], ...}, in two vectors.
std::array<llvm::Value*, 2> interleaved(Builder& b, llvm::Value* x, llvm::Value* y);

// `value` (scalar or vector of memory_type) as panel elements. Exact: every source value is representable.
llvm::Value* to_panel(Builder& b, llvm::Value* value, DType from, PanelKind panel, const DotTarget& target);

} // namespace kiln::cpu::dot
