// A stream with the place of the call, so that the errors of ops name their caller's line.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>

namespace kiln::ops::detail {

using kiln::detail::StreamAt;

} // namespace kiln::ops::detail
