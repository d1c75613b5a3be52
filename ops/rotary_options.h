// Defines the options of rotary embedding; rotary.h says what they mean.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

// Which elements form pair j: `halves` means j and j + width / 2 (GPT-NeoX, Llama), and `interleaved` means
// 2 j and 2 j + 1 (GPT-J).
enum class RotaryPairs : std::uint8_t { halves, interleaved };

struct RotaryOptions {
  RotaryPairs pairs = RotaryPairs::halves;
  std::int64_t width = 0; // how many elements at the beginning of a head are rotated, an even number; 0: all
  double theta = 10000;   // without effect if cos and sin are given
  Input cos = {}, sin = {}; // [positions, width / 2], of floats; both or none
  // Of i32 or i64, broadcast to the extents of x without the last axis; if not given, token i is at i.
  Input positions = {};
  std::int64_t offset = 0; // added to positions
};

} // namespace kiln::ops
KILN_API_END
