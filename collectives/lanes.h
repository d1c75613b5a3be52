// Defines the streams and memory with which a rank's reductions run, and which later reductions reuse.
#pragma once

#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <mutex>
#include <vector>

namespace kiln::collectives {

// The stream and memory of one reduction, so that it waits neither for what the caller launches, nor for
// other reductions.
struct Lane {
  explicit Lane(Device device) : stream(device) {}
  // Memory of at least this size, whose contents are undefined. It is valid until the next call.
  void* memory(std::int64_t bytes) {
    if (bytes > buffer.size()) {
      buffer = Buffer(); // frees the old one first
      buffer = Buffer(stream.device(), bytes);
    }
    return buffer.data();
  }
  Stream stream;
  Buffer buffer;
};

// Thread-safe.
class Lanes {
public:
  // Returns a lane that no other caller gets until all copies of the pointer are destroyed.
  std::shared_ptr<Lane> take(Device device) {
    std::unique_ptr<Lane> lane;
    {
      const std::lock_guard lock(idle_->mutex);
      if (!idle_->lanes.empty()) {
        lane = std::move(idle_->lanes.back());
        idle_->lanes.pop_back();
      }
    }
    if (!lane) lane = std::make_unique<Lane>(device);
    return {lane.release(), [idle = idle_](Lane* given_back) {
              const std::lock_guard lock(idle->mutex);
              idle->lanes.emplace_back(given_back);
            }};
  }

private:
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> lanes;
  };
  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
};

} // namespace kiln::collectives
