// Declares the conversions from elements in memory to elements that the microkernel multiplies.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

#include <array>

namespace kiln::cpu::dot {

// The type as which an element is loaded: its own, or an integer of its size for 16- and 8-bit floats.
llvm::Type* memory_type(Builder& b, DType t);

// The type of one packed element: float, double, or i16 or i8 where elements are grouped.
llvm::Type* panel_element_type(Builder& b, PanelKind panel);

// Interleaves two vectors into {x[0], y[0], x[1], y[1], ...}, which takes two vectors.
std::array<llvm::Value*, 2> interleaved(Builder& b, llvm::Value* x, llvm::Value* y);

// Converts `value`, a scalar or a vector of memory_type, to panel elements. The conversion is exact, since
// panel elements represent every source value.
llvm::Value* to_panel(Builder& b, llvm::Value* value, DType from, PanelKind panel, const DotTarget& target);

} // namespace kiln::cpu::dot
