// Which lanes of a warp went other ways, and what they have done since.
//
// An .aligned barrier takes all lanes of a warp. Nobody misses those that have exited, if they left at once:
// `if (row >= rows) return;` is how kernels begin. Lanes that went another way, did something there and left,
// or that left the loop whose barrier others come to again, have skipped it. That is told whoever ran first.
#pragma once

#include "program.h"

namespace kiln::emulator {

class Divergence {
public:
  Divergence() { idle_.fill(all_lanes); }

  void split(Mask some, Mask others, const Instruction& at);
  void note_activity(Mask lanes) { // while others of the warp were elsewhere
    for (; lanes; lanes &= lanes - 1)
      idle_[lane(lanes)] = 0;
  }
  void note_exit(Mask lanes, const Instruction& at) { exits_.push_back({lanes, at.line}); }
  void note_barrier(const Instruction& barrier, Mask lanes);

  // Of those that are gone, the ones that have skipped a barrier where `here` are.
  Mask skipped(const Instruction& barrier, Mask here, Mask gone) const;
  // "lanes 0xfffffc00 took the other way at line 24 and left the kernel at line 31"
  std::string describe(Mask skipped, Mask here) const;

private:
  static std::size_t lane(Mask m);
  struct Split {
    Mask some = 0, others = 0;
    int line = 0;
  };
  struct Exit {
    Mask lanes;
    int line;
  };
  std::array<Mask, warp_size> idle_; // by lane: since it parted from which others it has done nothing
  std::array<Split, 16> splits_{};   // a ring
  std::size_t split_count_ = 0;
  std::vector<Exit> exits_;
  std::vector<std::pair<const Instruction*, Mask>> barriers_;
};

} // namespace kiln::emulator
