// Defines the streams and memory with which a rank's reductions run, and which later reductions reuse.
#pragma once

#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kiln::collectives {

// The stream and memory of one reduction, so that it waits neither for what the caller launches, nor for
// other reductions.
struct Lane {
  explicit Lane(Device device) : stream(device) {}
  // Memory of at least this size, whose contents are undefined. It is valid until the next call.
  void* memory(std::int64_t bytes) {
    needed = std::max(needed, bytes);
    if (bytes > buffer.size()) {
      buffer = Buffer(); // frees the old one first
      buffer = Buffer(stream.device(), bytes);
    }
    return buffer.data();
  }
  Stream stream;
  Buffer buffer;
  std::int64_t needed = 0; // the largest size of this period
  bool used = false;       // in this period
};

// Keeps lanes for later reductions. A period is 64 calls of take. At its end, lanes that no reduction of
// the period used are destroyed, and so is the memory of lanes that is more than twice as large as what the
// period needed. So what 128 reductions in a row do not need is freed. Thread-safe.
class Lanes {
public:
  static constexpr int period = 64;

  // Returns a lane that no other caller gets until all copies of the pointer are destroyed.
  std::shared_ptr<Lane> take(Device device) {
    std::unique_ptr<Lane> lane;
    std::vector<std::unique_ptr<Lane>> unused; // are destroyed without the lock
    std::vector<Buffer> too_large;
    {
      const std::lock_guard lock(idle_->mutex);
      if (++idle_->taken % period == 0) {
        auto& lanes = idle_->lanes;
        const auto first = std::stable_partition(lanes.begin(), lanes.end(), [](auto& l) { return l->used; });
        std::move(first, lanes.end(), std::back_inserter(unused));
        lanes.erase(first, lanes.end());
        for (auto& l : lanes) {
          if (l->buffer.size() > 2 * l->needed) too_large.push_back(std::exchange(l->buffer, Buffer()));
          l->used = false, l->needed = 0;
        }
      }
      if (!idle_->lanes.empty()) {
        lane = std::move(idle_->lanes.back());
        idle_->lanes.pop_back();
      }
    }
    if (!lane) lane = std::make_unique<Lane>(device);
    lane->used = true;
    return {lane.release(), [idle = idle_](Lane* given_back) {
              const std::lock_guard lock(idle->mutex);
              idle->lanes.emplace_back(given_back);
            }};
  }
  // The bytes of all lanes that no caller has.
  std::int64_t idle_bytes() const {
    const std::lock_guard lock(idle_->mutex);
    std::int64_t bytes = 0;
    for (const auto& lane : idle_->lanes)
      bytes += lane->buffer.size();
    return bytes;
  }

private:
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> lanes;
    std::uint64_t taken = 0;
  };
  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
};

} // namespace kiln::collectives
