// Defines the options of rotary embedding; rotary.h says what they mean.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/ops/array.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln::ops {

// Which elements are pair j: j and j + width / 2 (GPT-NeoX, Llama), or 2 j and 2 j + 1 (GPT-J).
enum class RotaryPairs : std::uint8_t { halves, interleaved };

struct RotaryOptions {
  RotaryPairs pairs = RotaryPairs::halves;
  std::int64_t width = 0; // the elements at the beginning of a head that are turned; 0: all
  double theta = 10000;
  Input cos = {}, sin = {};
  // Of i32 or i64, broadcast to the extents of x without the last axis. Without them, token i is at i.
  Input positions = {};
  std::int64_t offset = 0; // added to positions
};

} // namespace kiln::ops
KILN_API_END
