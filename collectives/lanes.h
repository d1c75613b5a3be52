// Defines the streams and memory on which a rank's reductions run, which are used again by later ones.
#pragma once

#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <mutex>
#include <vector>

namespace kiln::collectives {

// What a reduction needs for itself: it does not wait for what the caller launches, nor for other reductions.
struct Lane {
  explicit Lane(Device device) : stream(device) {}
  // Memory of at least so many bytes, whose contents are undefined.
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
  // A lane that no other caller gets until all copies of the pointer are gone.
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
