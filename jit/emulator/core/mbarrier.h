// Packs the state of an mbarrier into its 64 bits, which are opaque to programs.
//
// The emulator's layout: bits 0 to 19 hold the arrivals that the phase still waits for, 20 to 39 those that
// each phase needs, 40 the phase's parity, 41 to 62 the bytes under way (signed). Bit 63 is set while the
// mbarrier is initialised.
#pragma once

#include <cstdint>

namespace kiln::emulator {

struct MbarrierState {
  static constexpr std::uint64_t most_arrivals = (1 << 20) - 1;
  static constexpr std::int64_t most_bytes = (1 << 20) - 1;

  std::uint64_t pending, expected;
  bool phase;
  std::int64_t bytes;
  bool valid;

  explicit MbarrierState(std::uint64_t w)
      : pending(w & most_arrivals), expected(w >> 20 & most_arrivals), phase(w >> 40 & 1),
        bytes(static_cast<std::int64_t>(w << 1) >> 42), valid(w >> 63) {}
  std::uint64_t word() const {
    return pending | expected << 20 | std::uint64_t(phase) << 40 |
           (static_cast<std::uint64_t>(bytes) & 0x3fffff) << 41 | std::uint64_t(valid) << 63;
  }
  // Ends the phase if all threads have arrived and all bytes have landed.
  void complete() {
    if (pending || bytes) return;
    phase = !phase;
    pending = expected;
  }
};

} // namespace kiln::emulator
