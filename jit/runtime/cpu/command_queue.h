// The ring of commands behind a CPU stream, and the thread that works it off. Not for users.
//
// Producers reserve a slot by raising `tail_` and publish it through the slot's sequence number (Vyukov's
// bounded queue). Whoever holds the executor's role, a one-word lock, runs commands at `head_`: the
// queue's worker, a thread that waits for the queue, or a producer of a small command. Whoever gives
// the role back looks whether commands are left and wakes the worker for them, so producers need not
// when the role is taken.
//
// Who launches and waits at once runs the command itself, and a worker woken for it would come in vain, or
// take it to another core's caches: a wake costs the launching thread some 10 us in a virtual machine, where
// 128 cubed takes 44. After some launches that were waited for at once the worker *dozes*: it is not woken,
// but looks at the queue itself before long, so that a launch that nobody waits for runs nonetheless, and
// ends this (wait_habit.h).
#pragma once

#include <kiln/jit/base/fork.h>
#include <kiln/jit/runtime/cpu/command_error.h>
#include <kiln/jit/runtime/cpu/wait_habit.h>
#include <kiln/jit/runtime/stream.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <pthread.h>

namespace kiln::detail {

class CommandQueue final : ForkAware {
public:
  static constexpr std::uint64_t capacity = 256;

  CommandQueue() = default;
  ~CommandQueue();

  void enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options);
  void synchronize();
  void drain() noexcept; // as synchronize, but leaves the error alone
  bool idle() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_seq_cst); }
  bool failed() const { return error_.failed(); }
  void clear_error();
  // As idle; who asks may do so until it is, so that the worker is woken.
  bool query();
  // Before destruction: waits, and returns the error that nobody was told of; null if there is none.
  std::exception_ptr finish() noexcept;
  // True on a thread that runs a command of this queue now.
  bool runs_here() const;

private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence;
    CommandFn fn;
    void* overflow; // the payload if it does not fit below
    std::size_t padding;
    alignas(16) unsigned char payload[Stream::inline_payload_bytes];
  };
  static_assert(sizeof(Slot) == 256);

  Slot& slot(std::uint64_t position) { return ring_[position % capacity]; }
  void start();
  void work();
  bool take_role();
  void give_role_back();
  bool try_run_until(std::uint64_t end);
  void run_head(std::uint64_t head);
  void run(CommandFn fn, void* payload) noexcept;
  void rest();
  void wake_worker();
  void announce_head(std::uint64_t head);
  void sleep_until_head(std::uint64_t target);
  bool work_available() const { return !idle() && role_.load(std::memory_order_seq_cst) == 0; }
  void reset_in_child() noexcept override;

  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> role_{0}; // 1: someone executes
  std::atomic<std::uint32_t> rest_{0};             // the worker's, the word it sleeps on; see rest()
  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint64_t> wake_at_{~std::uint64_t{0}}; // lowest head that a sleeper awaits
  std::atomic<std::uint32_t> progress_{0};                            // the word those sleepers sleep on
  alignas(64) WaitHabit habit_;
  alignas(64) std::unique_ptr<Slot[]> ring_;
  bool has_thread_ = false;
  pthread_t thread_{};
  std::mutex start_mutex_;
  CommandError error_;
};

} // namespace kiln::detail
