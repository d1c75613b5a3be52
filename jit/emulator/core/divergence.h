// Which lanes of a warp went other ways, and what they have done since.
//
// An .aligned barrier takes all lanes of a warp. Nobody misses those that have exited, if they left at once:
// `if (row >= rows) return;` is how kernels begin. Lanes that went another way, did something there and left,
// or that left the loop whose barrier others come to again, have skipped it. That is told whoever ran first.
#pragma once

#include "program.h"

namespace kiln::emulator {

class Partings {
public:
  Partings() { idle_.fill(all_lanes); }

  void part(Mask some, Mask others, const Instruction& at);
  void act(Mask lanes) { // while others of the warp were elsewhere
    for (; lanes; lanes &= lanes - 1)
      idle_[lane(lanes)] = 0;
  }
  void leave(Mask lanes, const Instruction& at) { left_.push_back({lanes, at.line}); }
  void pass(const Instruction& barrier, Mask lanes);

  // Of those that are gone, the ones that have skipped a barrier where `here` are.
  Mask skipped(const Instruction& barrier, Mask here, Mask gone) const;
  // "lanes 0xfffffc00 took the other way at line 24 and left the kernel at line 31"
  std::string tell(Mask skipped, Mask here) const;

private:
  static std::size_t lane(Mask m);
  struct Parting {
    Mask some = 0, others = 0;
    int line = 0;
  };
  struct Place {
    Mask lanes;
    int line;
  };
  std::array<Mask, warp_size> idle_; // by lane: since it parted from which others it has done nothing
  std::array<Parting, 16> last_{};   // a ring
  std::size_t next_ = 0;
  std::vector<Place> left_;
  std::vector<std::pair<const Instruction*, Mask>> passed_;
};

} // namespace kiln::emulator
