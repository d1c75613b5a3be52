// Queues commands and runs them in order.
#include <kiln/jit/runtime/cpu/command_queue.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/futex.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/thread.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <sched.h>

namespace kiln::detail {
namespace {

constexpr std::chrono::microseconds idle_spin{50};
constexpr std::chrono::microseconds wait_spin{30};
constexpr std::uint64_t nobody = ~std::uint64_t{0};

// States of a worker: awake; asleep until it is woken; or asleep until it checks the queue after the time
// `doze`, which is how late a launch without a wait may start.
constexpr std::uint32_t awake = 0, asleep = 1, dozing = 2;
constexpr std::chrono::microseconds doze{500};

// The queue whose command this thread is running.
thread_local const CommandQueue* running = nullptr;

} // namespace

bool CommandQueue::runs_here() const { return running == this; }

CommandQueue::~CommandQueue() {
  drain();
  if (!has_thread_) return;
  stop_.store(true, std::memory_order_seq_cst);
  wake_worker();
  pthread_join(thread_, nullptr);
}

void CommandQueue::start() {
  std::lock_guard lock(start_mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  if (!ring_) {
    ring_ = std::make_unique<Slot[]>(capacity);
    for (std::uint64_t i = 0; i < capacity; ++i)
      ring_[i].sequence.store(i, std::memory_order_relaxed);
  }
  spinning_helps(); // initialise now: it allocates, which a launch should not
  auto body = [](void* self) -> void* {
    static_cast<CommandQueue*>(self)->work();
    return nullptr;
  };
  has_thread_ = start_thread(thread_, body, this, "kiln-stream");
  if (!has_thread_)
    log_warning_once("the system refused a stream's thread; its commands run in the launching threads");
  started_.store(true, std::memory_order_release);
}

void CommandQueue::enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options) {
  error_.check();
  if (options.small && idle() && take_role()) {
    bool still_idle = idle();
    if (still_idle) run(fn, payload);
    give_role_back();
    if (still_idle) return;
  }
  if (!started_.load(std::memory_order_acquire)) start();
  const bool first = habit_.launching();
  void* overflow = nullptr;
  if (bytes > Stream::inline_payload_bytes) {
    overflow = std::malloc(bytes);
    if (!overflow)
      throw UserError("no memory for the " + std::to_string(bytes) + " bytes of a command's arguments");
  }

  // Reserves a slot.
  std::uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    std::uint64_t sequence = slot(position).sequence.load(std::memory_order_acquire);
    if (sequence == position) {
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_seq_cst)) break;
      continue;
    }
    if (sequence < position) { // the slot is still in use: the ring is full
      if (runs_here()) {
        std::free(overflow);
        throw UserError(
            "a stream's command queues more than " + std::to_string(capacity) +
            " commands on its own stream, which cannot run before it returns; use another stream");
      }
      // Wait for several free slots, so that producers are not woken for each.
      std::uint64_t target = position - capacity + capacity / 8;
      if (!has_thread_) try_run_until(nobody);
      if (!spin_until([&] { return head_.load(std::memory_order_acquire) >= target; }, wait_spin))
        sleep_until_head(target);
    }
    position = tail_.load(std::memory_order_relaxed);
  }
  Slot& s = slot(position);
  s.fn = fn;
  s.overflow = overflow;
  if (bytes) std::memcpy(overflow ? overflow : s.payload, payload, bytes);
  s.sequence.store(position + 1, std::memory_order_release);

  if (!has_thread_) {
    try_run_until(nobody);
  } else if (role_.load(std::memory_order_seq_cst) == 0) {
    const bool leave_it = habit_.at_once() && rest_.load(std::memory_order_seq_cst) == dozing;
    if (!leave_it) wake_worker();
  }
  if (first) habit_.launched();
}

void CommandQueue::run(CommandFn fn, void* payload) noexcept {
  const CommandQueue* outer = running;
  running = this;
  ThreadPool* const outer_pool = exchange_scoped_pool(pool_);
  bool discard = failed();
  try {
    fn(payload, discard ? CommandAction::Discard : CommandAction::Run);
  } catch (...) {
    if (!discard) error_.keep(std::current_exception());
  }
  exchange_scoped_pool(outer_pool);
  running = outer;
}

void CommandQueue::run_head(std::uint64_t head) {
  Slot& s = slot(head);
  // The slot is reserved but not written yet: its producer is between two instructions or was preempted
  // there.
  for (int tries = 0; s.sequence.load(std::memory_order_acquire) != head + 1; ++tries)
    tries < 1000 ? cpu_relax() : void(sched_yield());
  void* overflow = s.overflow;
  run(s.fn, overflow ? overflow : s.payload);
  std::free(overflow);
  s.sequence.store(head + capacity, std::memory_order_release);
  head_.store(head + 1, std::memory_order_seq_cst);
  announce_head(head + 1);
}

bool CommandQueue::take_role() {
  return role_.load(std::memory_order_relaxed) == 0 && role_.exchange(1, std::memory_order_seq_cst) == 0;
}

void CommandQueue::give_role_back() {
  role_.store(0, std::memory_order_seq_cst);
  if (!idle()) wake_worker();
}

// Runs the commands before position `end`, unless another thread runs commands; returns whether it did.
// Without a worker that could run the rest, it runs all commands.
bool CommandQueue::try_run_until(std::uint64_t end) {
  if (!take_role()) return false;
  do {
    for (std::uint64_t head = head_.load(std::memory_order_relaxed);
         head != tail_.load(std::memory_order_seq_cst) && (head < end || !has_thread_); ++head)
      run_head(head);
    give_role_back();
  } while (!idle() && !has_thread_ && take_role());
  return true;
}

void CommandQueue::wake_worker() {
  if (rest_.load(std::memory_order_seq_cst) != awake &&
      rest_.exchange(awake, std::memory_order_seq_cst) != awake)
    futex_wake(rest_, 1);
}

bool CommandQueue::query() {
  if (idle()) return true;
  habit_.not_waited();
  if (role_.load(std::memory_order_seq_cst) == 0) wake_worker();
  return false;
}

void CommandQueue::work() {
  // A launch wakes this thread, often on the CPU of the launching thread. With the normal scheduling policy
  // it would preempt that thread, and the launch would return only when the kernel is done: after 2.5 ms
  // instead of 5 us on two cores.
  yield_to_wakers();
  auto stopped = [&] { return stop_.load(std::memory_order_seq_cst); };
  while (!stopped()) {
    // After running commands, the worker spins until the next one. If another thread has taken the commands
    // that it was woken for, that thread needs the CPU more.
    if (work_available() && try_run_until(nobody) && !habit_.at_once()) {
      if (spin_until([&] { return work_available() || stopped(); }, idle_spin)) continue;
    }
    rest();
  }
}

// Sleeps until there is work. The worker keeps dozing as long as other threads have run commands during each
// doze. If they have not, the next command can afford a wake.
void CommandQueue::rest() {
  auto wanted = [&] { return work_available() || stop_.load(std::memory_order_seq_cst); };
  while (habit_.at_once()) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    rest_.store(dozing, std::memory_order_seq_cst);
    if (!wanted()) futex_wait(rest_, dozing, doze);
    rest_.store(awake, std::memory_order_seq_cst);
    if (wanted()) return;
    if (head_.load(std::memory_order_relaxed) == head) break;
  }
  rest_.store(asleep, std::memory_order_seq_cst);
  while (!wanted() && rest_.load(std::memory_order_seq_cst) == asleep)
    futex_wait(rest_, asleep);
  rest_.store(awake, std::memory_order_seq_cst);
}

// Wakes threads that sleep until the head reaches this position.
void CommandQueue::announce_head(std::uint64_t head) {
  if (head < wake_at_.load(std::memory_order_seq_cst)) return;
  wake_at_.store(nobody, std::memory_order_seq_cst);
  progress_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(progress_);
}

// A sleeping thread lowers wake_at_ and then checks the head; the executor raises the head and then checks
// wake_at_. If wake_at_ is overwritten while another thread is woken, the sleeping thread sees that progress_
// has changed.
void CommandQueue::sleep_until_head(std::uint64_t target) {
  for (;;) {
    std::uint32_t progress = progress_.load(std::memory_order_seq_cst);
    std::uint64_t lowest = wake_at_.load(std::memory_order_seq_cst);
    while (target < lowest && !wake_at_.compare_exchange_weak(lowest, target, std::memory_order_seq_cst)) {
    }
    if (head_.load(std::memory_order_seq_cst) >= target) return;
    futex_wait(progress_, progress);
  }
}

void CommandQueue::drain() noexcept {
  std::uint64_t target = tail_.load(std::memory_order_seq_cst);
  auto done = [&] { return head_.load(std::memory_order_acquire) >= target; };
  habit_.waited();
  while (!done()) {
    if (try_run_until(target)) continue;
    if (!spin_until(done, wait_spin)) sleep_until_head(target);
  }
}

void CommandQueue::synchronize() {
  if (runs_here())
    throw UserError("a stream's command synchronizes with its own stream, which would wait forever; "
                    "use an event or another stream");
  drain();
  error_.check();
}

void CommandQueue::clear_error() {
  if (runs_here())
    throw UserError("a stream's command clears its own stream's error; do so after synchronize()");
  drain();
  error_.clear();
}

std::exception_ptr CommandQueue::finish() noexcept {
  drain();
  return error_.unreported();
}

void CommandQueue::reset_in_child() noexcept {
  // The payloads of pending commands belong to the parent. Resources that they own are leaked here rather
  // than released twice.
  if (ring_)
    for (std::uint64_t i = 0; i < capacity; ++i)
      ring_[i].sequence.store(i, std::memory_order_relaxed);
  tail_.store(0, std::memory_order_relaxed);
  head_.store(0, std::memory_order_relaxed);
  role_.store(0, std::memory_order_relaxed);
  rest_.store(awake, std::memory_order_relaxed);
  habit_.reset();
  wake_at_.store(nobody, std::memory_order_relaxed);
  started_.store(false, std::memory_order_relaxed);
  has_thread_ = false;
  new (&start_mutex_) std::mutex;
  error_.reset_in_child();
}

} // namespace kiln::detail
