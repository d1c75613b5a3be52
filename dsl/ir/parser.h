// Parses the text of tile IR.
//
// It reads what printer.h writes, and text that people write in that form: values may have any name, and //
// begins a comment. Any text that cannot be parsed is a UserError, "file:line:column: expected ..., found
// ...". The result may still be invalid tile IR: see verifier.h.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>
#include <string_view>
#include <vector>

namespace kiln::ir {

// Parses one kernel. An operation without a location in the text gets `file_name` and its line.
std::unique_ptr<Kernel> parse(std::string_view text, std::string_view file_name = "text");
// Parses any number of kernels, one after the other.
std::vector<std::unique_ptr<Kernel>> parse_all(std::string_view text, std::string_view file_name = "text");
// Parses a type, such as "tile<BM x 4 x f32>".
Type parse_type(std::string_view text);

} // namespace kiln::ir
