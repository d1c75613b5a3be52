// Times launches on a device until the answer is sure enough.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/statistics.h>
#include <kiln/autotune/random.h>
#include <kiln/jit/runtime/cuda/graph.h>
#include <kiln/jit/runtime/kernel/ir_kernel.h>

#include <functional>
#include <optional>

namespace kiln::tune {

// One config of the kernel, ready to be launched.
struct Candidate {
  const IrKernel* kernel;
  Config config;
  std::optional<Grid> grid;
};

struct TimingPlan {
  double least_seconds = 0.02, most_seconds = 0.3;
  double drop = 1.5;
  bool cold = false;
  double screening_seconds = 1e9; // launches that take long are sampled less often, once at the least
  double noise = 0;               // for tests: so many of the samples are four times too long
};

struct Timing {
  double seconds = 0;
  double quickest = 0; // sample
  Interval interval;
  int launches = 0;
  int samples = 0, disturbed = 0; // in which the system took the CPU away
  bool dropped = false;           // after the screening
};

// Launches on sets of arguments, by turns; all sets are equal. Not thread-safe.
class Timer {
public:
  Timer(Stream& stream, std::vector<ArraySet>& sets, const Contents& contents, const TimingPlan& plan);

  // One sample: seconds a launch, of as many as last long enough for the clock.
  struct Sample {
    double seconds = 0;
    bool disturbed = false;
  };
  // How many launches a sample should have, found by launching: also warms up.
  int launches_of_sample(const Candidate& candidate);
  Sample sample(const Candidate& candidate, int launches);

  // Three samples in which nothing came between (fewer of launches so long that these take more than
  // `screening_seconds`); more only if the quickest is no longer than `drop` times
  // `best` (0: there is none). Then as many as it takes until the interval of the median lies on one side of
  // `best`, or is narrower than 1 %, or the time of the plan is spent.
  Timing time(const Candidate& candidate, double best);
  // Samples of each by turns, the order reversed every other time, for so many seconds each.
  std::vector<Timing> interleaved(const std::vector<Candidate>& candidates, double seconds);

private:
  int screening_of(double sample_seconds) const;
  void launch(const Candidate& candidate);
  double on_host(const Candidate& candidate, int launches);
  double on_cuda(const Candidate& candidate, int launches);
  cuda::Graph& graph_of(const Candidate& candidate, int launches);
  void flush_caches();

  Stream& stream_;
  std::vector<ArraySet>& sets_;
  const Contents& contents_;
  TimingPlan plan_;
  std::size_t next_set_ = 0;
  double warm_up_seconds_ = 0; // of the last candidate's first launches
  Random noise_{1};
  struct CapturedGraph {
    const IrKernel* kernel;
    Config config;
    int launches;
    cuda::Graph graph;
  };
  std::vector<CapturedGraph> graphs_;
  std::optional<Buffer> flushed_; // larger than the caches, where the sets together are not
};

// How many sets make every launch find its arguments in no cache; 1 for warm caches.
int sets_for(const TimingPlan& plan, Device device, std::int64_t bytes_of_set);

} // namespace kiln::tune
