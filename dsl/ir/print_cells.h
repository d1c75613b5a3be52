// Formats values for device_print and for reports: "3", "-0.5", "[[1, 2], [3, 4]]".
#pragma once

#include <kiln/dsl/ir/evaluate_tiles.h>

#include <string>

namespace kiln::ir {

// Formats one number; a float in the shortest form that reads back as the same f32 or f64.
std::string cell_to_string(DType t, Cell x);
// Formats a whole value: a tile in brackets nested by axis, pointers in hexadecimal.
std::string cells_to_string(const Type& type, const Cells& cells);
// The index of the element at position `linear` in row-major order: "(1, 2)".
std::string index_text(const Type& type, std::size_t linear);

} // namespace kiln::ir
