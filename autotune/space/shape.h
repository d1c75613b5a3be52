// Parses shapes as the command line writes them.
//
// A shape has named sizes, "M=512,N=512", or all sizes in order, "512x512x256".
//
// The parsers throw UserError, which quotes `--shape` and says what to write, for an empty part, a size that
// is not a number, and a repeated name.
#pragma once

#include <kiln/autotune/space/space.h>

#include <string>

namespace kiln::tune {

using Sizes = decltype(Problem::sizes);

bool has_names(const std::string& shape);
// Parses a shape with names; an empty text has no sizes.
Sizes named_sizes(const std::string& shape);
// Parses a shape without names: it must have as many values as `kernel` has `sizes`, and they take the names
// of those.
Sizes sizes_in_order(const std::string& shape, const std::string& kernel, Sizes sizes);

std::string names_of(const Sizes& sizes);     // "M, N, K"
std::string shape_of(const Problem& problem); // "M=512,N=512,K=256"

} // namespace kiln::tune
