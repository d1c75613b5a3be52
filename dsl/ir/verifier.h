// Checks that tile IR is well formed: counts, types, shapes, attributes, dominance, regions and the dtypes
// that each operation takes. Every later stage may rely on it.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>
#include <vector>

namespace kiln::ir {

// Everything that is wrong, in program order: "file:line: what is wrong, in: %5 = add %3, %4 : f32".
std::vector<std::string> problems(const Kernel& kernel);

// Whose fault invalid IR is: Kiln's (InternalError with the whole kernel), or the author's of its text
// (UserError).
enum class Blame { Kiln, Author };
// Throws if there are problems, listing all of them.
void verify(const Kernel& kernel, Blame blame = Blame::Kiln);

} // namespace kiln::ir
