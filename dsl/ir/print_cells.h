// The text of values in device_print and in reports: "3", "-0.5", "[[1, 2], [3, 4]]".
#pragma once

#include <kiln/dsl/ir/evaluate_tiles.h>

#include <string>

namespace kiln::ir {

// One number; floats in the shortest form that reads back as the same f32 or f64.
std::string cell_to_string(DType t, Cell x);
// A whole value; tiles nested by axis, pointers in hexadecimal.
std::string cells_to_string(const Type& type, const Cells& cells);
// The position of element `linear` of a tile: "(1, 2)".
std::string index_text(const Type& type, std::size_t linear);

} // namespace kiln::ir
