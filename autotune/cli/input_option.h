// Implements the option --input of `kiln tune`, and the generators of inputs that kernels register.
#pragma once

#include <kiln/autotune/run/registry.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tune {

// Gives parameters of the task, which make_task has made for the kernel, the contents that its registration
// generates (TunableKernel::inputs) or, with precedence, those of files. Each of `inputs` is "NAME=FILE",
// where NAME is a parameter of the registration. A FILE.npy must have the parameter's shape and dtype, in C
// order; any other file must consist of exactly the parameter's elements, row by row. Throws UserError for an
// unknown parameter, for one that is given twice or that the kernel only writes, for a file that cannot be
// read or does not fit, and if a generator is null or throws.
void give_inputs(Task& task, const TunableKernel& kernel, const std::vector<std::string>& inputs,
                 std::uint64_t seed);

} // namespace kiln::tune
