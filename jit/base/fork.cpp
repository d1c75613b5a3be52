// Keeps the list of objects to reset after a fork, and counts the threads that forks wait for.
#include <kiln/jit/base/fork.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <pthread.h>
#include <thread>

namespace kiln {

namespace {
std::atomic<std::uint32_t> generation{0};

std::atomic<int> working{0};        // threads with objects of HoldsForks
std::atomic<int> forking{0};        // threads that fork or wait to fork
thread_local int depth_of_work = 0; // objects of this thread

// Waiting is polling, because a condition variable on which threads wait during a fork cannot be used in the
// child. A compile takes milliseconds at least.
void wait_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

void wait_for_work() {
  if (depth_of_work > 0) return; // other threads may wait for this one
  using Clock = std::chrono::steady_clock;
  const auto latest = Clock::now() + std::chrono::seconds(longest_wait_for_work);
  while (working.load() > 0 && Clock::now() < latest)
    wait_a_little();
}
} // namespace

struct ForkRegistry {
  std::mutex mutex; // held during fork, so that the child finds the list in a consistent state
  ForkAware* first = nullptr;

  ForkRegistry() { pthread_atfork(before, in_parent, in_child); }

  static ForkRegistry& get() {
    static auto* registry = new ForkRegistry;
    return *registry;
  }
  static void before() {
    forking.fetch_add(1);
    wait_for_work();
    get().mutex.lock();
  }
  static void in_parent() {
    get().mutex.unlock();
    forking.fetch_sub(1);
  }
  static void in_child() {
    working = depth_of_work > 0;
    forking = 0;
    generation.fetch_add(1, std::memory_order_relaxed);
    for (ForkAware* object = get().first; object; object = object->next_)
      object->reset_in_child();
    get().mutex.unlock();
  }

  void add(ForkAware& object) {
    std::lock_guard lock(mutex);
    object.next_ = first;
    if (first) first->previous_ = &object;
    first = &object;
  }
  void remove(ForkAware& object) {
    std::lock_guard lock(mutex);
    (object.previous_ ? object.previous_->next_ : first) = object.next_;
    if (object.next_) object.next_->previous_ = object.previous_;
  }
};

// Makes the registry while Kiln is loaded. A child that is forked while another thread makes it would wait
// for that thread for ever.
[[maybe_unused]] static const ForkRegistry& registry = ForkRegistry::get();

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

// Work that sees no fork begin has been counted before the fork looks.
HoldsForks::HoldsForks() {
  if (depth_of_work++ > 0) return;
  while (working.fetch_add(1), forking.load() > 0) {
    working.fetch_sub(1);
    wait_a_little();
  }
}
HoldsForks::~HoldsForks() {
  if (--depth_of_work == 0) working.fetch_sub(1);
}

ForkAware::ForkAware() { ForkRegistry::get().add(*this); }
ForkAware::~ForkAware() { ForkRegistry::get().remove(*this); }

} // namespace kiln
