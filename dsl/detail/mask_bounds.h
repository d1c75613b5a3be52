// Bounds a recorded mask: whether any element of a tile of bools may be true, and whether all are.
//
// The mask is interpreted abstractly, with intervals for integers and {none, some, all} for bools, and the
// result is recorded as scalar code. So a loop over blocks can skip those that a mask hides, without a table
// of blocks. Bounds are conservative: where they give up, any is true and all is false.
#pragma once

#include <kiln/dsl/detail/emit.h>

#include <string>

namespace kiln::detail {

struct MaskBounds {
  Handle any; // scalar bools
  Handle all;
  std::string
      gave_up; // why the bounds are not exact, such as "it loads a whole tile (mask.cpp:12)", or empty
};

// Records the bounds of `mask`, a tile or scalar of bool, and returns them. They hold for integer arithmetic
// as SEMANTICS.md defines it: where an intermediate result may wrap around, they give up at run time.
//
// Rules: numbers and scalars of the kernel, arange, + - * / % by positive scalars, min, max, negation, abs,
// shifts by constants, conversions between integers, comparisons of integers, & | ^ ! of bools, where; and
// loads and anything else whose tile has at most one axis of more than one element, by their minimum and
// maximum.
MaskBounds emit_mask_bounds(Handle mask);

} // namespace kiln::detail
