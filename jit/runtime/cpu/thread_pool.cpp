// Distributes the chunks of loops over pinned workers.
//
// A call claims one of a few job slots, divides its loop into one share per thread, publishes it, and
// executes the chunks of its own share, then those of other shares. If the same loop runs again, each thread
// therefore gets the same part and finds its data in its caches, while the others take over the chunks of a
// late or slow thread. Workers join a job by incrementing the count in its state word, and leave when no
// chunk is left. The owner closes the job to further workers, waits until the count is zero and frees the
// slot. A caller that finds no free slot runs alone. Workers sleep on `epoch`, which every publication
// increments.
#include <kiln/jit/runtime/cpu/thread_pool.h>

#include <kiln/jit/base/cpu_info.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/futex.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/thread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

constexpr std::chrono::microseconds idle_spin{50};
constexpr std::chrono::microseconds finish_spin{50};
constexpr std::chrono::microseconds trade_interval{200};
constexpr int chunks_per_thread = 32;
constexpr int max_jobs = 16;
// Bounds how far `next` exceeds its end, so that it cannot overflow.
constexpr std::int64_t max_grain = std::int64_t{1} << 48;

// The state word of a job: two flags, and the number of workers that have joined.
constexpr std::uint32_t job_open = 1;
constexpr std::uint32_t owner_sleeps = 2;
constexpr std::uint32_t one_worker = 4;

struct alignas(64) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

struct alignas(64) Job {
  std::atomic<std::uint32_t> state{0};
  ParallelFn fn = nullptr;
  void* context = nullptr;
  std::int64_t grain = 1;
  int shares = 1;
  std::unique_ptr<Share[]> share; // with one element for each thread of the pool

  void divide(std::int64_t n, int threads) {
    shares = static_cast<int>(std::min<std::int64_t>(threads, (n - 1) / grain + 1));
    const std::int64_t each = n / shares, more = n % shares;
    std::int64_t begin = 0;
    for (int i = 0; i < shares; ++i) {
      share[i].next.store(begin, std::memory_order_relaxed);
      begin += each + (i < more ? 1 : 0);
      share[i].end = begin;
    }
  }

  // Runs chunks until none is left, beginning with the worker's own share. Returns whether there were any.
  bool run(int worker) noexcept {
    bool any = false;
    for (int i = 0; i < shares; ++i) {
      Share& s = share[(worker + i) % shares];
      while (s.next.load(std::memory_order_relaxed) < s.end) {
        std::int64_t begin = s.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= s.end) break;
        any = true;
        fn(context, begin, std::min(s.end, begin + grain), worker);
      }
    }
    return any;
  }

  bool join() {
    std::uint32_t s = state.load(std::memory_order_relaxed);
    while (s & job_open)
      if (state.compare_exchange_weak(s, s + one_worker, std::memory_order_acquire)) return true;
    return false;
  }

  void leave() {
    std::uint32_t before = state.fetch_sub(one_worker, std::memory_order_acq_rel);
    // The owner may free the slot at any time. A wake that reaches the next owner is harmless.
    if ((before & owner_sleeps) && before / one_worker == 1) futex_wake(state, 1);
  }

  void close_and_wait() {
    std::uint32_t s = state.fetch_and(~job_open, std::memory_order_acq_rel);
    if (s < one_worker) return;
    auto alone = [&] { return state.load(std::memory_order_acquire) < one_worker; };
    if (spin_until(alone, finish_spin)) return;
    state.fetch_or(owner_sleeps, std::memory_order_acq_rel);
    for (;;) {
      s = state.load(std::memory_order_acquire);
      if (s < one_worker) return;
      futex_wait(state, s);
    }
  }
};

} // namespace

struct ThreadPool::State final : ForkAware {
  struct Worker {
    State* pool = nullptr;
    int index = 0;
    int cpu = -1;
    pthread_t thread{};
  };

  State(int threads, Pinning pinning) : size(std::max(1, threads)), pinned(pinning == Pinning::On) {
    workers.resize(static_cast<std::size_t>(size - 1));
    for (Job& job : jobs)
      job.share = std::make_unique<Share[]>(static_cast<std::size_t>(size));
  }

  ~State() {
    stop.store(true, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(epoch);
    for (int i = 0; i < running.load(std::memory_order_relaxed); ++i)
      pthread_join(workers[i].thread, nullptr);
  }

  void reset_in_child() noexcept override {
    started.store(false, std::memory_order_relaxed);
    running.store(0, std::memory_order_relaxed);
    sleepers.store(0, std::memory_order_relaxed);
    claimed.store(0, std::memory_order_relaxed);
    spare_cpu.store(-1, std::memory_order_relaxed);
    for (Job& job : jobs)
      job.state.store(0, std::memory_order_relaxed);
    new (&start_mutex) std::mutex;
  }

  void start();
  void trade_cpus(int cpu);
  void work(Worker& self);
  bool help_with_jobs(int worker);

  const int size;
  const bool pinned;
  std::vector<Worker> workers; // start_mutex guards `cpu` and `thread`
  std::mutex start_mutex;
  std::atomic<bool> started{false};
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::atomic<int> spare_cpu{-1}; // the CPU that is left to callers; -1 if workers are not pinned
  std::chrono::steady_clock::time_point last_trade{};
  alignas(64) std::atomic<std::uint32_t> epoch{0};
  alignas(64) std::atomic<std::uint32_t> sleepers{0};
  alignas(64) std::atomic<std::uint32_t> claimed{0}; // one bit per job slot
  Job jobs[max_jobs];
};

// Starts the workers on the CPUs that follow the caller's in the mask, so that small pools of several
// processes use different CPUs.
void ThreadPool::State::start() {
  std::lock_guard lock(start_mutex);
  if (started.load(std::memory_order_relaxed)) return;
  // Initialise now: if a worker did, a fork meanwhile would leave the child waiting for it forever.
  spinning_helps();
  auto cpus = affinity_cpus();
  std::size_t here =
      static_cast<std::size_t>(std::find(cpus.begin(), cpus.end(), sched_getcpu()) - cpus.begin());
  if (here == cpus.size()) here = 0;
  bool pin = pinned && size > 1 && static_cast<std::size_t>(size) <= cpus.size();
  int count = 0;
  for (; count < size - 1; ++count) {
    Worker& w = workers[count];
    w.pool = this;
    w.index = count + 1;
    w.cpu = pin ? cpus[(here + static_cast<std::size_t>(w.index)) % cpus.size()] : -1;
    std::string name = "kiln-worker-" + std::to_string(w.index);
    auto body = [](void* p) -> void* {
      auto* self = static_cast<Worker*>(p);
      self->pool->work(*self);
      return nullptr;
    };
    if (!start_thread(w.thread, body, &w, name.substr(0, 15).c_str())) {
      log_warning_once("the system refused a worker thread; kernels run with fewer threads");
      break;
    }
    if (pin) pin_thread(w.thread, w.cpu);
  }
  if (pin) spare_cpu.store(cpus[here], std::memory_order_relaxed);
  running.store(count, std::memory_order_relaxed);
  started.store(true, std::memory_order_release);
}

// Moves the worker that is pinned to the caller's CPU to the spare CPU.
void ThreadPool::State::trade_cpus(int cpu) {
  std::unique_lock lock(start_mutex, std::try_to_lock);
  if (!lock) return;
  auto now = std::chrono::steady_clock::now();
  if (now - last_trade < trade_interval) return; // a caller that changes CPUs often is not followed
  last_trade = now;
  for (Worker& w : workers) {
    if (w.cpu != cpu) continue;
    w.cpu = spare_cpu.load(std::memory_order_relaxed);
    pin_thread(w.thread, w.cpu);
    spare_cpu.store(cpu, std::memory_order_relaxed);
    return;
  }
}

bool ThreadPool::State::help_with_jobs(int worker) {
  bool helped = false;
  for (std::uint32_t left = claimed.load(std::memory_order_acquire); left; left &= left - 1) {
    Job& job = jobs[std::countr_zero(left)];
    if (!job.join()) continue;
    helped |= job.run(worker);
    job.leave();
  }
  return helped;
}

void ThreadPool::State::work(Worker& self) {
  while (!stop.load(std::memory_order_acquire)) {
    std::uint32_t seen = epoch.load(std::memory_order_seq_cst);
    while (help_with_jobs(self.index)) {
    }
    auto published = [&] { return epoch.load(std::memory_order_seq_cst) != seen; };
    if (spin_until(published, idle_spin)) continue;
    // A publisher increments the epoch and then checks for sleepers; a worker increments the count of
    // sleepers and then checks the epoch. So at least one of them sees the other.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (!published())
      futex_wait(epoch, seen);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
}

ThreadPool::ThreadPool(int threads, Pinning pinning) : state_(new State(threads, pinning)) {}
ThreadPool::~ThreadPool() = default;

// Never destroyed, because launches may be in flight while the process exits.
ThreadPool& ThreadPool::shared() {
  static std::atomic<ThreadPool*> known{nullptr};
  if (ThreadPool* pool = known.load(std::memory_order_acquire)) return *pool;
  const HoldsForks no_fork; // a child of a fork meanwhile would wait for the construction for ever
  static auto* pool = [] {
    const ThreadBudget budget = thread_budget(); // num_threads of the CPU outside of scopes
    return new ThreadPool(budget.threads, budget.limited_by_quota ? Pinning::Off : Pinning::On);
  }();
  known.store(pool, std::memory_order_release);
  return *pool;
}

namespace {
thread_local ThreadPool* scoped = nullptr;
} // namespace

ThreadPool* detail::scoped_pool() { return scoped; }
ThreadPool* detail::exchange_scoped_pool(ThreadPool* pool) { return std::exchange(scoped, pool); }

ThreadPool& ThreadPool::current() { return scoped ? *scoped : shared(); }

PoolScope::PoolScope(ThreadPool& pool) : outer_(std::exchange(scoped, &pool)) {}
PoolScope::~PoolScope() { scoped = outer_; }

int ThreadPool::size() const { return state_->size; }

void ThreadPool::parallel_for(std::int64_t n, ParallelFn fn, void* context, std::int64_t grain) noexcept {
  if (n <= 0) return;
  State& s = *state_;
  if (grain <= 0) grain = std::max<std::int64_t>(1, n / (std::int64_t{s.size} * chunks_per_thread));
  grain = std::min(grain, max_grain);
  if (s.size == 1 || n <= grain) return fn(context, 0, n, 0);
  if (!s.started.load(std::memory_order_acquire)) s.start();

  // Claims a slot.
  std::uint32_t taken = s.claimed.load(std::memory_order_relaxed), bit;
  do {
    if (taken == (1u << max_jobs) - 1) return fn(context, 0, n, 0);
    bit = ~taken & (taken + 1);
  } while (!s.claimed.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire));
  if (int spare = s.spare_cpu.load(std::memory_order_relaxed); spare >= 0 && taken == 0)
    if (int cpu = sched_getcpu(); cpu != spare) s.trade_cpus(cpu);

  Job& job = s.jobs[std::countr_zero(bit)];
  job.fn = fn;
  job.context = context;
  job.grain = grain;
  job.divide(n, s.size);
  job.state.store(job_open, std::memory_order_release);
  s.epoch.fetch_add(1, std::memory_order_seq_cst);
  if (std::uint32_t asleep = s.sleepers.load(std::memory_order_seq_cst)) {
    std::int64_t useful = (n - 1) / grain; // chunks besides the caller's own
    futex_wake(s.epoch, static_cast<int>(std::min<std::int64_t>(asleep, useful)));
  }
  job.run(0);
  job.close_and_wait();
  job.state.store(0, std::memory_order_relaxed);
  s.claimed.fetch_and(~bit, std::memory_order_release);
}

} // namespace kiln
