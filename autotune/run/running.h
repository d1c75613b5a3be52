// The tuning runs of this process, which interrupt_tuning() ends.
#pragma once

#include <atomic>

namespace kiln::tune {

class LiveMeasurer;

// Enters a measurer there for as long as it lives.
class Running {
public:
  explicit Running(LiveMeasurer& measurer);
  ~Running();
  Running(const Running&) = delete;

private:
  std::atomic<LiveMeasurer*>* slot_ = nullptr;
};

} // namespace kiln::tune
