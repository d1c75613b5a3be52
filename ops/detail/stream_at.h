// Provides StreamAt, a stream with the source location of the call, so that the errors of ops name that line.
#pragma once

#include <kiln/jit/runtime/kernel/kernel.h>

namespace kiln::ops::detail {

using kiln::detail::StreamAt;

} // namespace kiln::ops::detail
