// Declares the derivative of what was recorded between two tiles.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/detail/emit.h>

KILN_API_BEGIN
namespace kiln::detail {

// Records d * dresult / dinput, element by element, and returns it with the type of `input`. `d`, the
// gradient with respect to `result`, has the dtype and shape of `result`; `input` is a tile or scalar of
// floats.
//
// Every operation on the way from `input` to `result` must be elementwise; see the rules in gradient.cpp. A
// value of integers or bools has no derivative, so that comparisons, conversions to integers and what depends
// on them are constants. Where a function has no derivative (relu at 0), one of the one-sided ones is taken.
// Throws UserError, with the location of the operation, if one on the way is not elementwise; `what` begins
// the message: "ops::attention: the score".
Handle emit_gradient(Handle result, Handle input, Handle d, const char* what);

} // namespace kiln::detail
KILN_API_END
