// Checks that tile IR is valid: counts, types, shapes, attributes, dominance, regions and the dtypes of each
// operation. Every later stage relies on it.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln::ir {

// All problems in program order: "file:line: what is wrong, in: %5 = add %3, %4 : f32".
std::vector<std::string> problems(const Kernel& kernel);

// Who is at fault if tile IR is invalid: Kiln (InternalError with the whole kernel), or the author of its
// text (UserError).
enum class Blame { Kiln, Author };
// Throws an error that lists all problems, if there are any.
void verify(const Kernel& kernel, Blame blame = Blame::Kiln);

} // namespace kiln::ir
