// Records which lanes of a warp diverged and what they did since, to find lanes that skipped a barrier.
//
// An .aligned barrier requires all lanes of a warp. Lanes that only returned do not count as missing: `if
// (row >= rows) return;` is how kernels begin. Lanes that took another branch, did something there and left
// the kernel, or that left a loop whose barrier other lanes reach again, have skipped it. This is reported
// whichever of them ran first.
#pragma once

#include "program.h"

namespace kiln::emulator {

class Divergence {
public:
  Divergence() { idle_.fill(all_lanes); }

  void split(Mask some, Mask others, const Instruction& at);
  void note_activity(Mask lanes) { // these lanes did something while other lanes of the warp were elsewhere
    for (; lanes; lanes &= lanes - 1)
      idle_[lane(lanes)] = 0;
  }
  void note_exit(Mask lanes, const Instruction& at) { exits_.push_back({lanes, at.line}); }
  void note_barrier(const Instruction& barrier, Mask lanes);

  // Returns those of the lanes `gone` that have skipped a barrier at which the lanes `here` are.
  Mask skipped(const Instruction& barrier, Mask here, Mask gone) const;
  // "lanes 0xfffffc00 took the other branch at line 24 and left the kernel at line 31"
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
  // idle_[l]: the lanes from which lane l has split without doing anything since.
  std::array<Mask, warp_size> idle_;
  std::array<Split, 16> splits_{}; // a ring buffer
  std::size_t split_count_ = 0;
  std::vector<Exit> exits_;
  std::vector<std::pair<const Instruction*, Mask>> barriers_;
};

} // namespace kiln::emulator
