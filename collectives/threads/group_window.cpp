// Implements puts into memory of other ranks, and waits for them.
#include <kiln/collectives/threads/group_call.h>

#include <kiln/jit/runtime/copy.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>

#include <algorithm>
#include <cstring>

namespace kiln::collectives {

void copy_between(Device to_device, void* to, Device from_device, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    struct Copy {
      char* to;
      const char* from;
      std::int64_t bytes;
    } whole{static_cast<char*>(to), static_cast<const char*>(from), bytes};
    constexpr std::int64_t block = 128 << 10;
    const auto copy_blocks = [](void* context, std::int64_t begin, std::int64_t end, int) noexcept {
      const Copy& c = *static_cast<const Copy*>(context);
      const std::int64_t first = begin * block, last = std::min(end * block, c.bytes);
      std::memcpy(c.to + first, c.from + first, static_cast<std::size_t>(last - first));
    };
    ThreadPool::current().parallel_for((bytes + block - 1) / block, copy_blocks, &whole, 4);
    return;
  }
  kiln::detail::copy_now(to_device.is_cpu() ? from_device : to_device, to, from, bytes,
                         std::source_location::current());
}

void Group::open_window(const void* memory) {
  timeline_.change([&] {
    windows_.insert(memory);
    waits_for_copies_ = true;
  });
}

void Group::close_window(int rank, const void* memory) {
  timeline_.change([&] { windows_.erase(memory); });
  timeline_.wait([&] { return copies_[static_cast<std::size_t>(rank)] == 0; });
}

void Group::put(const CallName& name, int from, int to, const Window& window, std::int64_t offset,
                const void* source, std::int64_t bytes) {
  const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  const Nanoseconds began = timeline_.now();
  const auto arrived = std::make_shared<bool>(false);
  const auto failure = [&]() -> std::optional<Failure> {
    if (aborted_) return aborted_;
    if (!windows_.count(window.memory))
      return Failure{to, "rank " + std::to_string(to) + " has ended, or has released its symmetric memory"};
    return std::nullopt;
  };
  const auto transfer = [=, this] {
    const Passage p = ports_.pass(from, to, bytes, timeline_.now_locked());
    timeline_.at_locked(p.arrival, when_a_put_ends(from),
                        {.begins =
                             [this, f, t, window] {
                               const bool there = !aborted_ && windows_.count(window.memory) && !gone_[f];
                               if (there) ++copies_[f], ++copies_[t];
                               return there;
                             },
                         .work =
                             [=, this] {
                               copy_between(device(to), static_cast<char*>(window.memory) + offset,
                                            device(from), source, bytes);
                             },
                         .done =
                             [this, f, t, window, arrived] {
                               --copies_[f], --copies_[t];
                               ++*window.signal;
                               *arrived = true;
                               return true;
                             }});
  };
  timeline_.change([&] {
    if (failure()) return;
    if (options_.clock == ClockKind::wall) return transfer();
    // Ports are asked in an order that does not depend on which thread is faster.
    timeline_.at_locked(timeline_.now_locked(), when_a_put_asks(from), {.done = [transfer] {
                          transfer();
                          return false;
                        }});
  });
  std::optional<Failure> failed;
  timeline_.wait([&] {
    if (!*arrived && copies_[f] == 0) failed = failure();
    if (failed) abort_locked(failed->failed_rank, failed->why); // so that the transfer does not begin later
    return *arrived || failed;
  });
  if (*arrived) return;
  abort(failed->failed_rank, failed->why);
  throw CommError(name, failed->failed_rank, timeline_.now() - began,
                  "rank " + std::to_string(from) + " sends: " + failed->why, {});
}

void Group::wait_signal(const CallName& name, int rank, int from, const std::uint64_t* signal,
                        std::uint64_t value, Nanoseconds deadline) {
  const Nanoseconds began = timeline_.now();
  if (deadline == 0) deadline = options_.deadline;
  std::optional<Failure> failure;
  const WaitEnd end = timeline_.wait(
      [&] {
        if (*signal >= value) return true;
        failure = aborted_;
        if (!failure && gone_[static_cast<std::size_t>(from)])
          failure = Failure{from, "rank " + std::to_string(from) + " has ended without this signal"};
        return failure.has_value();
      },
      later(timeline_.now(), deadline));
  if (end == WaitEnd::ready && !failure) return;
  std::string record;
  if (!failure) {
    failure = Failure{from, "rank " + std::to_string(from) + " has not sent the signal"};
    record = last_calls();
  }
  abort(failure->failed_rank, failure->why);
  throw CommError(name, failure->failed_rank, timeline_.now() - began,
                  "rank " + std::to_string(rank) + " waits: " + failure->why, record);
}

} // namespace kiln::collectives
