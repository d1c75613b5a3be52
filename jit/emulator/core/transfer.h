// Defines asynchronous copies and reductions of bytes: cp.async, bulk and tensor copies, st.async and
// red.async.
#pragma once

#include "async_operation.h"

#include <memory>

namespace kiln::emulator {

struct Located;

enum class Combine : std::uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor };

// Combines element by element, as the atomics of the type do.
void combine(Combine op, ptx::Type type, std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes);

struct Transfer : AsyncOperation {
  // Copies `bytes` from `from` to `to`. Without `from` it repeats the 4 bytes of `fill`.
  struct Piece {
    std::uint8_t* to;
    const std::uint8_t* from;
    std::uint32_t bytes;
    std::uint8_t* shadow; // of `to`; may be null
    int lane;
    const std::uint8_t* from_shadow = nullptr; // of `from`, if it has unwritten bytes; null otherwise
  };
  std::vector<Piece> pieces;
  std::uint32_t fill = 0;
  bool flush = false;               // subnormal f32 become zero
  bool combines = false;            // whether it updates its destination
  Combine operation = Combine::Add; // the update
  ptx::Type type = ptx::Type::None; // type of the elements
  std::uint8_t* mbarrier = nullptr; // that counts its bytes
  std::uint64_t counted = 0;        // the number of bytes
  bool into_shared = false;
  Region* destination = nullptr;

  void add(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes, std::uint8_t* shadow,
           int lane = 0, const std::uint8_t* from_shadow = nullptr) {
    pieces.push_back({to, from, bytes, shadow, lane, from_shadow});
  }
  void poison() override;
  void read(Mask lanes) override;
  void land(Block& from, Mask lanes) override;
  void remember(); // keeps a copy of the sources, to detect changes

private:
  std::vector<std::uint8_t> data_, before_;
  std::vector<std::uint8_t> written_; // shadows of pieces with from_shadow
  bool changed_ = false, marked_ = false;
};

// cp.async.mbarrier.arrive: arrives at an mbarrier when the lanes' earlier copies have landed.
struct Arrival : AsyncOperation {
  std::uint8_t* mbarrier[warp_size] = {};
  Arrival() { after_copies = true, queue = Queue::Mbarrier; }
  void land(Block& from, Mask lanes) override;
};

// Subtracts bytes or `arrivals` from those an mbarrier expects, and ends its phase if none are left.
void count_on_mbarrier(Block& block, const AsyncOperation& op, std::uint8_t* mbarrier, std::uint64_t bytes,
                       std::uint64_t arrivals);

} // namespace kiln::emulator
