// Defines the layout classes of views, which are all that a kernel is specialised for besides its config.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln {

// What is known about a view's memory when a kernel is compiled:
//
//   Any:     nothing, the strides are arbitrary;
//   Unit:    the innermost stride is 1;
//   Aligned: the innermost stride is 1, and the address and all other strides are multiples of 16 bytes.
enum class LayoutClass : std::uint8_t { Any, Unit, Aligned };

} // namespace kiln
KILN_API_END
