// Defines how a search compares one output of a kernel with that of the reference.
//
// By default, each element may differ by the rounding errors that the kernel makes: a multiple of how far the
// element moves when the inputs change by one unit in the last place, plus that of its own dtype. Integers and
// bools must be equal, unless they depend on floats: then those that are decided by a rounding error may
// differ by one. Outputs to which a kernel appends through an atomic counter may be in any order.
//
//   tuned(find_nearest, space, {.outputs = {{.parameter = 2, .share = 0.01},                       // indices
//                                           {.parameter = 3, .relative = 1e-3, .absolute = 1e-6},
//                                           {.parameter = 4, .ignored = true}}});                  // scratch
#pragma once

#include <kiln/dsl/api.h>

#include <functional>
#include <string>

KILN_API_BEGIN
namespace kiln::tune {

struct OutputCheck {
  int parameter = 0; // counted from 0; a view or pointer whose elements are not const
  // A value v is right next to the reference's r if |v - r| <= absolute + relative * |r|. Both 0: determined
  // as described above.
  double relative = 0, absolute = 0;
  // The share of the elements, from 0 to 1, that may differ by any amount, such as the indices of maxima that
  // are nearly equal. 0: determined by how many elements change when the inputs change.
  double share = 0;
  bool unordered = false; // the elements may be in any order, so they are sorted before they are compared
  bool ignored = false;   // not compared, such as scratch memory
};

} // namespace kiln::tune
KILN_API_END
