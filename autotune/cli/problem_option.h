// Determines the problem that the options of `kiln records why` describe.
#pragma once

#include <kiln/autotune/records/database.h>

#include <string>

namespace kiln::tune {

struct ProblemOptions {
  std::string kernel, shape, dtype, kind; // empty: not given
  Device device;
};

// A shape with names, "M=512,N=512", gives the sizes and `kind` the kind. A shape without names, or any with
// a dtype, is read as by `kiln tune` if that knows the kernel, so that the kind is that of what it tunes;
// otherwise the names are those of the newest record's sizes. Throws UserError if neither is possible.
Problem problem_from_options(Database& database, const ProblemOptions& options);

} // namespace kiln::tune
