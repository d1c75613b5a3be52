// Lists the activation functions that ops can apply.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

// `none` is the identity, relu(x) is max(x, 0), gelu is the exact one with the error function, and silu(x) is
// x * sigmoid(x); see dsl/functions.h.
enum class Activation : std::uint8_t { none, relu, gelu, silu };
inline constexpr int activation_count = 4;

// Returns the name of the enumerator, such as "gelu".
const char* name(Activation activation);

} // namespace kiln::ops
KILN_API_END
