// Reads the text that printer.h writes, and what people write like it: values may have any name, and
// // starts a comment. Never crashes on garbage: what does not parse is a UserError "file:line:column:
// expected ..., found ...". What parses may still be invalid: see verifier.h.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>
#include <string_view>
#include <vector>

namespace kiln::ir {

// The text of one kernel. Operations without a place of their own get that of their line in `file_name`.
std::unique_ptr<Kernel> parse(std::string_view text, std::string_view file_name = "text");
// Any number of kernels, one after the other.
std::vector<std::unique_ptr<Kernel>> parse_all(std::string_view text, std::string_view file_name = "text");
// "tile<BM x 4 x f32>"
Type parse_type(std::string_view text);

} // namespace kiln::ir
