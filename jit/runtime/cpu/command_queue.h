// Defines the ring of commands of a CPU stream, and the thread that runs them. Internal.
//
// Producers reserve a slot by incrementing `tail_` and publish it through the slot's sequence number
// (Vyukov's bounded queue). One thread at a time holds the executor's role, a lock of one word, and runs
// commands at `head_`: the queue's worker thread, a thread that waits for the queue, or the producer of a
// small command. A thread that releases the role checks whether commands are left and wakes the worker for
// them. Producers therefore need not wake it while another thread holds the role.
//
// A thread that launches and waits directly afterwards runs the command itself. Waking the worker would be
// wasted, or move the data to the caches of another core. It costs the launching thread about 10 us in a
// virtual machine, while a 128x128x128 product takes 44 us. After a number of launches with a wait directly
// afterwards, the worker *dozes*: it is not woken, but checks the queue itself every half millisecond. A
// launch without a wait therefore still runs, and ends the dozing (wait_habit.h).
#pragma once

#include <kiln/jit/base/fork.h>
#include <kiln/jit/runtime/cpu/command_error.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
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

  CommandQueue() : pool_(scoped_pool()) {}
  ~CommandQueue();

  void enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options);
  void synchronize();
  void drain() noexcept; // as synchronize, but does not throw the error
  bool idle() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_seq_cst); }
  bool failed() const { return error_.failed(); }
  void clear_error();
  // As idle(). A caller may poll until it is true, so this wakes the worker.
  bool query();
  // For the destructor of a stream: waits, and returns an error that was not reported, or null.
  std::exception_ptr finish() noexcept;
  // Whether the calling thread is running a command of this queue.
  bool runs_here() const;

private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence;
    CommandFn fn;
    void* overflow; // the payload if it is larger than `payload`
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
  alignas(64) std::atomic<std::uint32_t> role_{0}; // 1: a thread executes commands
  std::atomic<std::uint32_t> rest_{0}; // state of the worker, and the word that it sleeps on; see rest()
  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  // The lowest head that a sleeping thread waits for.
  alignas(64) std::atomic<std::uint64_t> wake_at_{~std::uint64_t{0}};
  std::atomic<std::uint32_t> progress_{0}; // the word that those threads sleep on
  alignas(64) WaitHabit habit_;
  alignas(64) std::unique_ptr<Slot[]> ring_;
  bool has_thread_ = false;
  pthread_t thread_{};
  std::mutex start_mutex_;
  CommandError error_;
  ThreadPool* const pool_; // which its kernels run on; null: the shared one
};

} // namespace kiln::detail
