// Asynchronous copies and reductions: bytes that go from some places to others.
#pragma once

#include "async_operation.h"

#include <memory>

namespace kiln::emulator {

struct Located;

enum class Combine : std::uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor };

// Element by element, as the atomics of the type do.
void combine(Combine op, ptx::Type type, std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes);

struct Transfer : AsyncOperation {
  struct Piece { // `bytes` from `from` (null: `fill`, 4 bytes over and over) to `to`
    std::uint8_t* to;
    const std::uint8_t* from;
    std::uint32_t bytes;
    std::uint8_t* shadow; // of `to`, or null
    int lane;
    const std::uint8_t* from_shadow = nullptr; // of what has not been written throughout
  };
  std::vector<Piece> pieces;
  std::uint32_t fill = 0;
  bool flush = false;               // subnormal f32 become zero on the way
  bool combines = false;            // an update
  Combine operation = Combine::Add; // and which
  ptx::Type type = ptx::Type::None; // of its elements
  std::uint8_t* mbarrier = nullptr; // that bytes are taken off
  std::uint64_t counted = 0;        // how many
  bool into_shared = false;
  Region* destination = nullptr;

  void add(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes, std::uint8_t* shadow,
           int lane = 0, const std::uint8_t* from_shadow = nullptr) {
    pieces.push_back({to, from, bytes, shadow, lane, from_shadow});
  }
  void poison() override;
  void read(Mask lanes) override;
  void land(Block& from, Mask lanes) override;
  void remember(); // the sources as they are now, to tell when they change

private:
  std::vector<std::uint8_t> data_, before_;
  std::vector<std::uint8_t> written_; // shadows of the pieces that have from_shadow
  bool changed_ = false, marked_ = false;
};

// cp.async.mbarrier.arrive: an arrival when the lanes' copies before it have landed.
struct Arrival : AsyncOperation {
  std::uint8_t* mbarrier[warp_size] = {};
  Arrival() { after_copies = true, queue = Queue::Mbarrier; }
  void land(Block& from, Mask lanes) override;
};

// Takes bytes, or `arrivals`, off an mbarrier, and ends its phase if those were the last.
void count_on_mbarrier(Block& block, const AsyncOperation& op, std::uint8_t* mbarrier, std::uint64_t bytes,
                       std::uint64_t arrivals);

} // namespace kiln::emulator
