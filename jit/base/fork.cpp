// Keeps the list of objects to reset after a fork.
#include <kiln/jit/base/fork.h>

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace kiln {

namespace {
std::atomic<std::uint32_t> generation{0};
}

struct ForkRegistry {
  std::mutex mutex; // held during fork, so that the child finds the list in a consistent state
  ForkAware* first = nullptr;

  ForkRegistry() { pthread_atfork(before, in_parent, in_child); }

  static ForkRegistry& get() {
    static auto* registry = new ForkRegistry;
    return *registry;
  }
  static void before() { get().mutex.lock(); }
  static void in_parent() { get().mutex.unlock(); }
  static void in_child() {
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

std::uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

ForkAware::ForkAware() { ForkRegistry::get().add(*this); }
ForkAware::~ForkAware() { ForkRegistry::get().remove(*this); }

} // namespace kiln
