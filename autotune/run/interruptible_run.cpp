// Implements the table of running tuning runs and interrupt_tuning(), which signal handlers may call.
#include <kiln/autotune/run/interruptible_run.h>

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/jit/base/fork.h>

#include <array>
#include <thread>

namespace kiln::tune {

namespace {

// This is initialised before any constructor runs, and is safe to use in signal handlers.
struct Runs {
  std::array<std::atomic<LiveMeasurer*>, 16> measurers{}; // any further run cannot be interrupted
  std::atomic<int> interrupting{0}; // calls of interrupt_tuning() that may hold a pointer
  std::atomic<int> interrupts{0};   // calls of interrupt_tuning() so far
};
constinit Runs runs;

// A forked child has none of its parent's runs.
struct ForgetsRuns final : ForkAware {
  void reset_in_child() noexcept override {
    for (auto& slot : runs.measurers)
      slot.store(nullptr);
    runs.interrupting.store(0);
  }
};

} // namespace

InterruptibleRun::InterruptibleRun(LiveMeasurer& measurer) {
  static const auto* const in_child = new ForgetsRuns; // never destroyed: the process may fork until it ends
  (void)in_child;
  for (auto& slot : runs.measurers) {
    LiveMeasurer* expected = nullptr;
    if (!slot.compare_exchange_strong(expected, &measurer)) continue;
    slot_ = &slot;
    return;
  }
}

InterruptibleRun::~InterruptibleRun() {
  if (slot_) slot_->store(nullptr);
  while (runs.interrupting.load() != 0) // another thread may still use the pointer
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
