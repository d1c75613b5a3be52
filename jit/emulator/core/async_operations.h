// Keeps the asynchronous operations of a block that have not ended, and chooses the moments at which they
// end.
//
// `Options::asynchrony` chooses: an operation lands when it is issued (Earliest), when a warp waits for it
// and no other warp can continue (Latest), or at a random moment between the two (Random). Until then its
// destination holds garbage. All three are legal, so that a correct program gives the same results with each.
#pragma once

#include "async_operation.h"

#include <memory>

namespace kiln::emulator {

class AsyncOperations {
public:
  explicit AsyncOperations(Block& block) : block_(block) {}
  // The caller has set `lanes`, `warp`, `queue` and `group` of the operation.
  void issue(std::unique_ptr<AsyncOperation> operation);
  // Lets these lanes wait until at most `allowed` of their committed groups are under way; with `all`, until
  // none is, the open group included. With `only_read`, sources that have been read are enough.
  void wait(Warp& warp, const Instruction& i, Mask lanes, AsyncOperation::Queue queue, std::uint32_t allowed,
            bool all, bool only_read);
  bool empty() const { return in_flight_ == 0; }
  std::size_t size() const { return in_flight_; }
  // Lets one of them land, or take its next step; the random number chooses.
  void advance(std::uint64_t draw);
  void land_oldest();
  // Called when the block's threads have exited. Reports operations that still use its shared memory.
  void finish();
  const std::vector<std::unique_ptr<AsyncOperation>>& all() const { return operations_; }

private:
  // A bulk copy out of this block's shared memory whose read has not been waited for yet.
  struct Source {
    Warp* warp;
    const Instruction* instruction;
    int lane;
    std::uint32_t group; // the group of the last such copy
  };
  void check_ranges(const AsyncOperation& op);
  void read(AsyncOperation& op, Mask lanes);
  void land(AsyncOperation& op, Mask lanes);
  void remove_finished();

  Block& block_;
  // In the order of issue, those that have landed and were not waited for included.
  std::vector<std::unique_ptr<AsyncOperation>> operations_;
  std::vector<Source> sources_;
  std::size_t in_flight_ = 0;
};

} // namespace kiln::emulator
