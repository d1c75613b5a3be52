#include <kiln/autotune/run/running.h>

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/jit/base/fork.h>

#include <array>
#include <thread>

namespace kiln::tune {

namespace {

// There before any constructor runs, and for handlers of signals.
struct Runs {
  std::array<std::atomic<LiveMeasurer*>, 16> measurers{}; // a run too many cannot be interrupted
  std::atomic<int> interrupting{0};                       // calls that look at them now
  std::atomic<int> interrupts{0};                         // so far
};
constinit Runs runs;

// A child has none of its parent's.
struct ForgetsRuns final : ForkAware {
  void reset_in_child() noexcept override {
    for (auto& slot : runs.measurers)
      slot.store(nullptr);
    runs.interrupting.store(0);
  }
};

} // namespace

Running::Running(LiveMeasurer& measurer) {
  static const auto* const in_child = new ForgetsRuns; // stays: the process may fork until it ends
  (void)in_child;
  for (auto& slot : runs.measurers) {
    LiveMeasurer* nobody = nullptr;
    if (!slot.compare_exchange_strong(nobody, &measurer)) continue;
    slot_ = &slot;
    return;
  }
}

Running::~Running() {
  if (slot_) slot_->store(nullptr);
  while (runs.interrupting.load() != 0) // by another thread, which may have found it there
    std::this_thread::yield();
}

void interrupt_tuning() noexcept {
  ++runs.interrupts;
  ++runs.interrupting;
  for (auto& slot : runs.measurers)
    if (LiveMeasurer* measurer = slot.load()) measurer->interrupt();
  --runs.interrupting;
}

int interruptions() noexcept { return runs.interrupts; }

} // namespace kiln::tune
