// Defines LayoutClass, which says what a kernel may assume about the address and the strides of a view.
// Besides its config and device, a kernel is specialised only for the layout classes of its views.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln {

// The properties of the memory of a view that compiled code may rely on:
//
//   Any:     nothing, the strides are arbitrary;
//   Unit:    the innermost stride is 1;
//   Aligned: the innermost stride is 1, and the address and all other strides are multiples of 16 bytes.
enum class LayoutClass : std::uint8_t { Any, Unit, Aligned };

} // namespace kiln
KILN_API_END
