// Checks that the four warps of a warpgroup execute the same wgmma.mma_async and setmaxnreg instructions.
//
// They must execute them in the same order and with the same operands. The warps execute one after the other;
// the first to execute an instruction sets what the others are compared with.
#pragma once

#include "program.h"

#include <algorithm>
#include <deque>

namespace kiln::emulator {

class Agreement {
public:
  static constexpr int warps = 4;
  struct Entry {
    const Instruction* instruction = nullptr;
    std::uint64_t a = 0, b = 0; // values of the operands
    bool operator==(const Entry&) const = default;
  };
  // Records an instruction of a warp. Returns null, or the different instruction that other warps executed
  // there.
  const Entry* differs(int warp, const Entry& mine) {
    const std::uint64_t n = done_[warp]++ - first_;
    if (n == entries_.size()) {
      entries_.push_back(mine);
      return nullptr;
    }
    shown_ = entries_[n];
    const bool last = std::min({done_[0], done_[1], done_[2], done_[3]}) > first_;
    if (last) {
      entries_.pop_front();
      ++first_;
    }
    return shown_ == mine ? nullptr : &shown_;
  }
  // An instruction that some of the warps have not executed, or null.
  const Instruction* missed() const { return entries_.empty() ? nullptr : entries_.front().instruction; }
  int arrived(std::uint64_t n = 0) const {
    int count = 0;
    for (const std::uint64_t d : done_)
      count += d > first_ + n;
    return count;
  }

private:
  std::deque<Entry> entries_; // those that some warps have not executed
  Entry shown_;
  std::uint64_t first_ = 0, done_[warps] = {};
};

} // namespace kiln::emulator
