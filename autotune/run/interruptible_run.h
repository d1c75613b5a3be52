// Registers the measurers of running tuning runs, so that interrupt_tuning() can end them.
#pragma once

#include <atomic>

namespace kiln::tune {

class LiveMeasurer;

// Registers a measurer for as long as this object lives.
class InterruptibleRun {
public:
  explicit InterruptibleRun(LiveMeasurer& measurer);
  ~InterruptibleRun();
  InterruptibleRun(const InterruptibleRun&) = delete;

private:
  std::atomic<LiveMeasurer*>* slot_ = nullptr;
};

} // namespace kiln::tune
