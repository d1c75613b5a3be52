#include <kiln/autotune/running.h>

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/tuner.h>
#include <kiln/jit/runtime/fork.h>

#include <array>
#include <thread>

namespace kiln::tune {

namespace {

// Of this process, and none of a parent's.
struct Runs final : ForkAware {
  std::array<std::atomic<LiveMeasurer*>, 16> measurers{}; // a run too many cannot be interrupted
  std::atomic<int> interrupting{0};                       // calls that look at them now
  std::atomic<int> interrupts{0};                         // so far

  void reset_in_child() noexcept override {
    for (auto& slot : measurers)
      slot.store(nullptr);
    interrupting.store(0);
  }
};
Runs runs;

} // namespace

Running::Running(LiveMeasurer& measurer) {
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
