// The asynchronous operations of a block that have not ended, and the moments at which they do.
//
// `Options::asynchrony`: an operation lands when it is issued (Earliest), when something waits for it and
// nobody else can go on (Latest), or at a moment of the seed's choice between the two (Random). Until then
// its destination holds garbage. All three are legal, and a program that is right gives the same results
// under each.
#pragma once

#include "async_operation.h"

#include <memory>

namespace kiln::emulator {

class AsyncOperations {
public:
  explicit AsyncOperations(Block& block) : block_(block) {}
  // Its `lanes`, `warp`, `queue` and `group` are set.
  void issue(std::unique_ptr<AsyncOperation> operation);
  // These lanes wait until at most `allowed` of their committed groups are under way (`all`: nothing at all,
  // the open group neither).
  void wait(Warp& warp, const Instruction& i, Mask lanes, AsyncOperation::Queue queue, std::uint32_t allowed,
            bool all, bool only_read);
  bool empty() const { return in_flight_ == 0; }
  std::size_t size() const { return in_flight_; }
  // One of them, or a step of it, by a random number.
  void advance(std::uint64_t draw);
  void land_oldest();
  // The block's threads are done. What still uses its shared memory is reported.
  void finish();
  const std::vector<std::unique_ptr<AsyncOperation>>& all() const { return operations_; }

private:
  // Of bulk copies out of this block's shared memory: the groups whose reads nobody has waited for yet.
  struct Source {
    Warp* warp;
    const Instruction* instruction;
    int lane;
    std::uint32_t group; // the last one
  };
  void check_ranges(const AsyncOperation& op);
  void read(AsyncOperation& op, Mask lanes);
  void land(AsyncOperation& op, Mask lanes);
  void remove_finished();

  Block& block_;
  std::vector<std::unique_ptr<AsyncOperation>>
      operations_; // in the order of issue; some have landed and are not waited for
  std::vector<Source> sources_;
  std::size_t in_flight_ = 0;
};

} // namespace kiln::emulator
