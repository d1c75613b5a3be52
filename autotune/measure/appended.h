// Finds the outputs of a kernel whose elements may be in another order in every launch.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::tune {

// An array to which a kernel stores at indices that depend on the old value of an atomic operation, while the
// stored values do not, as a kernel does that appends to an array through a counter. Which program gets which
// place depends on timing and on the sizes of tiles. In contrast, a kernel whose programs take the number of
// their tile from a counter stores what depends on that number too, so that each element has its place.
struct Append {
  int parameter = 0;
  // The axis along which the array is appended to, so that what has the same index there forms a row; -1: it
  // is not known, and each element counts as a row.
  int axis = -1;
  // Arrays with the same number are appended to at the same indices, so that their rows belong together.
  int group = 0;
};

// Returns one for each such parameter, in their order.
std::vector<Append> appends_of(const ir::Kernel& kernel);

} // namespace kiln::tune
