// What the four warps of a warpgroup must all execute, in the same order and with the same operands:
// wgmma.mma_async and setmaxnreg. They come one by one, so the first to come says what the others will be
// compared with.
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
    std::uint64_t a = 0, b = 0; // operands
    bool operator==(const Entry&) const = default;
  };
  // Null, or what the warps before did in its place.
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
  // An instruction that some of the warps never came to, or null.
  const Instruction* missed() const { return entries_.empty() ? nullptr : entries_.front().instruction; }
  int arrived(std::uint64_t n = 0) const {
    int count = 0;
    for (const std::uint64_t d : done_)
      count += d > first_ + n;
    return count;
  }

private:
  std::deque<Entry> entries_; // that not all have executed
  Entry shown_;
  std::uint64_t first_ = 0, done_[warps] = {};
};

} // namespace kiln::emulator
