// Sorts the elements of outputs whose order differs from launch to launch.
#pragma once

#include <kiln/dsl/dtype.h>

#include <vector>

namespace kiln::tune {

// Sorts elements by value. Those that still hold the pattern come last; `poisoned` may be empty.
void sort_elements(std::vector<unsigned char>& values, DType dtype,
                   const std::vector<unsigned char>& poisoned);

} // namespace kiln::tune
