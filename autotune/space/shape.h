// Shapes as the command line has them: sizes with names, "M=512,N=512", or all in order, "512x512x256".
//
// UserError that quotes `--shape` and says what to write for what is neither: a part that is empty, a size
// that is no number, a name that is there twice.
#pragma once

#include <kiln/autotune/space/space.h>

#include <string>

namespace kiln::tune {

using Sizes = decltype(Problem::sizes);

bool has_names(const std::string& shape);
// Of a shape with names; none of an empty one.
Sizes named_sizes(const std::string& shape);
// Of a shape without: as many as `kernel` has `sizes`, with their names.
Sizes sizes_in_order(const std::string& shape, const std::string& kernel, Sizes sizes);

std::string names_of(const Sizes& sizes);     // "M, N, K"
std::string shape_of(const Problem& problem); // "M=512,N=512,K=256"

} // namespace kiln::tune
