// Finds which arguments' contents decide where a kernel reads and writes, or how often its loops run.
//
// With made-up contents of such an argument, a kernel may read outside of its arrays or loop forever. NaN and
// infinities that replace some of the given contents can have the same effect.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::tune {

struct Steering {
  bool addresses = false; // influences an index or a pointer
  bool control = false;   // influences a loop's condition or bounds, or a branch
  bool loops = false;     // influences a loop's condition or bounds
  bool any() const { return addresses || control; }
};

// Returns one for each parameter; the contents of scalars do not count. Follows values through arithmetic,
// loops, branches, and memory that the kernel itself writes.
std::vector<Steering> steering_of(const ir::Kernel& kernel);
// Returns one for each parameter, whether it is a scalar whose value does. Branches that can be taken with
// any value do not count, such as the one of a mode: neither side loops until a condition holds, or accesses
// memory otherwise than by loading and storing elements of views.
std::vector<bool> steering_scalars(const ir::Kernel& kernel);

} // namespace kiln::tune
