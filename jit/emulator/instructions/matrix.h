// Defines the shapes and the element values of mma.sync and wmma.
#pragma once

#include "decoder.h"
#include <kiln/jit/emulator/core/number.h>

#include <bit>

namespace kiln::emulator {

struct Shape {
  int m = 0, n = 0, k = 0;
};

inline std::optional<Shape> take_shape(Decoder& d, std::initializer_list<std::string_view> names) {
  const std::string_view s = d.take_one_of(names);
  if (s.empty()) return std::nullopt;
  Shape shape;
  int* to = nullptr;
  for (char c : s) {
    if (c == 'm' || c == 'n' || c == 'k')
      to = c == 'm' ? &shape.m : c == 'n' ? &shape.n : &shape.k;
    else
      *to = *to * 10 + (c - '0');
  }
  return shape;
}

inline float element_value(Type t, std::uint32_t bits) {
  switch (t) {
  case Type::F16: return from_f16(static_cast<std::uint16_t>(bits));
  case Type::BF16: return from_bf16(static_cast<std::uint16_t>(bits));
  case Type::E4M3: return static_cast<float>(decode(bits, format_e4m3));
  case Type::E5M2: return static_cast<float>(decode(bits, format_e5m2));
  default: return std::bit_cast<float>(bits & 0xffffe000); // tf32
  }
}
inline std::int32_t element_integer(Type t, std::uint32_t bits) {
  return t == Type::S8 ? static_cast<std::int8_t>(bits) : static_cast<std::int32_t>(bits);
}

} // namespace kiln::emulator
