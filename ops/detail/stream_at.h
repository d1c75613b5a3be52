// Provides StreamAt, a stream with the source location of the call, so that the errors of ops name that line.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>

KILN_API_BEGIN
namespace kiln::ops::detail {

using kiln::detail::StreamAt;

} // namespace kiln::ops::detail
KILN_API_END
