// Finds the lanes that skipped a barrier, and describes where they diverged and exited.
#include "divergence.h"

#include <algorithm>
#include <bit>

namespace kiln::emulator {

std::size_t Divergence::lane(Mask m) { return static_cast<std::size_t>(std::countr_zero(m)); }

void Divergence::split(Mask some, Mask others, const Instruction& at) {
  if (!some || !others) return;
  for (Mask rest = some; rest; rest &= rest - 1)
    idle_[lane(rest)] |= others;
  for (Mask rest = others; rest; rest &= rest - 1)
    idle_[lane(rest)] |= some;
  splits_[split_count_++ % splits_.size()] = {some, others, at.line};
}

void Divergence::note_barrier(const Instruction& barrier, Mask lanes) {
  for (auto& [known, came] : barriers_)
    if (known == &barrier) {
      came |= lanes;
      return;
    }
  barriers_.emplace_back(&barrier, lanes);
}

Mask Divergence::skipped(const Instruction& barrier, Mask here, Mask gone) const {
  Mask skipped = 0;
  for (Mask rest = gone; rest; rest &= rest - 1)
    if (!(idle_[lane(rest)] & here)) skipped |= rest & (~rest + 1);
  for (const auto& [known, came] : barriers_)
    if (known == &barrier) skipped |= came & gone;
  return skipped;
}

std::string Divergence::describe(Mask skipped, Mask here) const {
  char mask[16];
  std::snprintf(mask, sizeof mask, "0x%08x", skipped);
  std::string text = std::string("lanes ") + mask;
  const Mask one = skipped & (~skipped + 1), other = here & (~here + 1);
  for (std::size_t n = 1; n <= std::min(split_count_, splits_.size()); ++n) {
    const Split& p = splits_[(split_count_ - n) % splits_.size()];
    if (!((p.some & one && p.others & other) || (p.some & other && p.others & one))) continue;
    text += " took the other branch at line " + std::to_string(p.line) + " and";
    break;
  }
  text += " left the kernel";
  for (const Exit& p : exits_)
    if (p.lanes & one) text += " at line " + std::to_string(p.line);
  return text;
}

} // namespace kiln::emulator
