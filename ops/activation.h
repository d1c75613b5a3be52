// The activation functions that ops apply to their results before they are stored.
#pragma once

#include <cstdint>

namespace kiln::ops {

enum class Activation : std::uint8_t { none, relu, gelu, silu };
inline constexpr int activation_count = 4;

const char* name(Activation activation); // "gelu"

} // namespace kiln::ops
