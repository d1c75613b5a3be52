// Times launches on a device until the result is precise enough.
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
  double screening_seconds = 1e9; // slow launches are sampled fewer times, but at least once
  double noise = 0;               // for tests: the fraction of samples that are made four times too long
};

struct Timing {
  double seconds = 0;
  double quickest = 0; // the shortest sample
  Interval interval;
  int launches = 0;
  int samples = 0, disturbed = 0; // disturbed: the system took the CPU away during the sample
  bool dropped = false;           // dropped after the screening
};

// Launches on sets of arguments in rotation; all sets are equal. Not thread-safe.
class Timer {
public:
  Timer(Stream& stream, std::vector<ArraySet>& sets, const Contents& contents, const TimingPlan& plan);

  // One sample: the seconds per launch, over as many launches as the clock's resolution requires.
  struct Sample {
    double seconds = 0;
    bool disturbed = false;
  };
  // Finds how many launches a sample needs by launching, which also warms up.
  int launches_of_sample(const Candidate& candidate);
  Sample sample(const Candidate& candidate, int launches);

  // Takes three undisturbed samples, or fewer if they would take more than `screening_seconds`. Continues
  // only if the quickest sample is at most `drop` times `best` (0: there is none). It then takes samples
  // until the interval of the median lies above `best` or is narrower than 1 %, or the plan's time is spent.
  Timing time(const Candidate& candidate, double best);
  // Samples all candidates in alternation, reversing the order in every other round, for `seconds` per
  // candidate.
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
  double warm_up_seconds_ = 0; // of the first launches of the last candidate
  Random noise_{1};
  struct CapturedGraph {
    const IrKernel* kernel;
    Config config;
    int launches;
    cuda::Graph graph;
  };
  std::vector<CapturedGraph> graphs_;
  std::optional<Buffer> flushed_; // larger than the caches; used if all sets together are not
};

// Returns how many sets make every launch find its arguments outside of all caches; 1 for warm caches.
int sets_for(const TimingPlan& plan, Device device, std::int64_t bytes_of_set);

} // namespace kiln::tune
