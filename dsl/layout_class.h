// What is proved about a view's memory when a kernel is compiled; the only specialisation there is.
#pragma once

#include <cstdint>

namespace kiln {

//   Any:     any strides;
//   Unit:    the innermost stride is 1;
//   Aligned: the innermost stride is 1, and base and all other strides are multiples of 16 bytes.
enum class LayoutClass : std::uint8_t { Any, Unit, Aligned };

} // namespace kiln
