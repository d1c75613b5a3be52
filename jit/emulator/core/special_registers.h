// Looks up special registers such as %tid, %ctaid and %lanemask_lt.
#pragma once

#include "program.h"

#include <string_view>

namespace kiln::emulator {

struct SpecialRegister {
  std::string_view name;
  int bits;
  std::uint8_t mode;
  Handler read;
};
const SpecialRegister* special_register(std::string_view name); // null if it does not exist

// Handlers of mov from a 32-bit special register to 64 or 16 bits, and of a symbol plus an offset.
void widen_special(Warp& w, const Instruction& i, Mask m);
void narrow_special(Warp& w, const Instruction& i, Mask m);
void add_offset64(Warp& w, const Instruction& i, Mask m);
void add_offset32(Warp& w, const Instruction& i, Mask m);

} // namespace kiln::emulator
