// Records, completes and waits for events.
#include <kiln/jit/runtime/event.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/futex.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/event_state.h>
#include <kiln/jit/runtime/stream.h>

#include <utility>

namespace kiln {
namespace detail {
namespace {

constexpr std::uint32_t pending = 0, finished = 1, pending_with_sleepers = 2;
constexpr std::chrono::microseconds wait_spin{30};

} // namespace

Occurrence::~Occurrence() = default;

cuda::EventHandleOwner& Occurrence::begin_on(cuda::DeviceState& device) {
  if (!cuda_event_ || &cuda_event_->device() != &device)
    cuda_event_ = std::make_unique<cuda::EventHandleOwner>(device);
  on_cuda_ = true;
  return *cuda_event_;
}

void Occurrence::begin() {
  fork_generation_ = fork_generation();
  time_ns_ = 0;
  on_cuda_ = false;
  word_.store(pending, std::memory_order_relaxed);
}

void Occurrence::complete() {
  time_ns_ = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  if (word_.exchange(finished, std::memory_order_acq_rel) == pending_with_sleepers) futex_wake(word_);
}

bool Occurrence::done() const {
  // An occurrence that was pending during a fork completes only in the parent, so the child must not wait for
  // it.
  if (fork_generation_ != fork_generation()) return true;
  return on_cuda_ ? cuda_event_->done() : word_.load(std::memory_order_acquire) == finished;
}

void Occurrence::wait() {
  if (on_cuda_ && fork_generation_ == fork_generation()) return cuda_event_->synchronize();
  if (spin_until([&] { return done(); }, wait_spin)) return;
  while (!done()) {
    std::uint32_t word = pending;
    if (word_.compare_exchange_strong(word, pending_with_sleepers, std::memory_order_acq_rel) ||
        word == pending_with_sleepers)
      futex_wait(word_, pending_with_sleepers);
  }
}

EventState::~EventState() {
  if (latest_) latest_->release();
  if (spare_) spare_->release();
}

Occurrence* EventState::prepare() {
  Occurrence* occurrence = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (spare_ && spare_->unshared()) occurrence = std::exchange(spare_, nullptr);
  }
  if (!occurrence) occurrence = new Occurrence;
  occurrence->begin();
  return occurrence;
}

void EventState::publish(Occurrence* occurrence) {
  std::lock_guard lock(mutex_);
  if (spare_) spare_->release();
  spare_ = std::exchange(latest_, occurrence->retain());
}

Occurrence* EventState::latest() const {
  std::lock_guard lock(mutex_);
  return latest_ ? latest_->retain() : nullptr;
}

namespace {

// Keeps a reference to the latest occurrence during a call.
class Latest {
public:
  explicit Latest(const EventState& state) : occurrence_(state.latest()) {}
  ~Latest() {
    if (occurrence_) occurrence_->release();
  }
  Latest(const Latest&) = delete;
  Latest& operator=(const Latest&) = delete;
  explicit operator bool() const { return occurrence_ != nullptr; }
  Occurrence* operator->() const { return occurrence_; }

private:
  Occurrence* occurrence_;
};

} // namespace
} // namespace detail

Event::Event() : state_(std::make_unique<detail::EventState>()) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

void Event::record(Stream& stream) {
  // Two references: the command takes one, and publish() takes the other.
  detail::Occurrence* occurrence = state_->prepare();
  occurrence->retain();
  if (stream.cuda_) {
    try {
      stream.cuda_->record(occurrence->begin_on(stream.cuda_->device()));
    } catch (...) {
      occurrence->release();
      occurrence->release();
      throw;
    }
    occurrence->release(); // the driver keeps what it needs
    state_->publish(occurrence);
    return occurrence->release();
  }
  auto complete = [](void* payload, CommandAction) {
    auto* o = *static_cast<detail::Occurrence**>(payload);
    o->complete();
    o->release();
  };
  try {
    stream.enqueue(complete, &occurrence, sizeof(occurrence), {.small = true});
  } catch (...) {
    occurrence->release();
    occurrence->release();
    throw;
  }
  state_->publish(occurrence);
  occurrence->release();
}

void Event::synchronize() const {
  if (detail::Latest latest(*state_); latest) latest->wait();
}

bool Event::query() const {
  detail::Latest latest(*state_);
  return !latest || latest->done();
}

double Event::elapsed_ms(const Event& begin, std::source_location here) const {
  detail::Latest from(*begin.state_), to(*state_);
  if (!from || !to || !from->done() || !to->done())
    throw UserError(here, "elapsed_ms between events of which one is not recorded or not done; "
                          "record both and synchronize with the later one");
  const cuda::EventHandleOwner *first = from->cuda_event(), *last = to->cuda_event();
  if (!first && !last) return static_cast<double>(to->time_ns() - from->time_ns()) * 1e-6;
  if (!first || !last || &first->device() != &last->device())
    throw UserError(
        here, "elapsed_ms between events recorded on different devices, whose clocks are not comparable; "
              "record both on one device");
  return last->ms_since(*first);
}

} // namespace kiln
