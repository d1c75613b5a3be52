// Takes timing samples, on the host's clock or on the device's.
#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/timing.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/copy.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>
#include <kiln/jit/runtime/event.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include <sys/resource.h>

namespace kiln::tune {

namespace {

long involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

constexpr std::int64_t most_rotated = std::int64_t{512} << 20; // bytes of all sets together
constexpr int most_sets = 64;
constexpr double host_seconds = 200e-6; // least length of a sample; the clock itself costs 0.03 % of it
constexpr double graph_seconds = 50e-6; // shorter kernels are launched by a graph
constexpr int most_launches = 1000;     // per sample
constexpr int screening = 3;            // samples
constexpr int most_samples = 300;
constexpr double narrow = 0.005; // half the width of a sufficiently precise interval, relative to its median

// Returns when all threads of the pool are awake, or after a time that is longer than waking one takes.
// Otherwise the first launch of a sample would wait for them, 60 us and more if the CPUs are shared.
void wake_threads() {
  struct Meeting {
    int expected;
    Clock::time_point until = Clock::now() + std::chrono::microseconds(300);
    std::atomic<int> arrived{0};
  };
  ThreadPool& pool = ThreadPool::shared();
  if (pool.size() == 1) return;
  Meeting meeting{pool.size()};
  const auto meet = [](void* context, std::int64_t, std::int64_t, int) noexcept {
    auto& m = *static_cast<Meeting*>(context);
    ++m.arrived;
    while (m.arrived < m.expected && Clock::now() < m.until) {
    }
  };
  pool.parallel_for(pool.size(), meet, &meeting, 1);
}

std::int64_t cache_bytes(Device device) {
  const DeviceProperties& p = device.properties();
  const std::int64_t last = std::max({p.l2_bytes, p.l3_bytes, std::int64_t{4} << 20});
  return std::min(last, most_rotated / 2);
}

} // namespace

int sets_for(const TimingPlan& plan, Device device, std::int64_t bytes_of_set) {
  if (!plan.cold || device.is_emulated() || bytes_of_set <= 0) return 1;
  const std::int64_t wanted = (2 * cache_bytes(device) + bytes_of_set - 1) / bytes_of_set + 1;
  const std::int64_t room = std::max<std::int64_t>(1, most_rotated / bytes_of_set);
  return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, room), 1, most_sets));
}

Timer::Timer(Stream& stream, std::vector<ArraySet>& sets, const Contents& contents, const TimingPlan& plan)
    : stream_(stream), sets_(sets), contents_(contents), plan_(plan) {
  const Device device = stream.device();
  if (!plan.cold || device.is_emulated()) return;
  std::int64_t bytes = 0;
  for (ArraySet& set : sets)
    for (const Array& array : set.arrays())
      bytes += array.bytes();
  if (bytes < 2 * cache_bytes(device)) flushed_.emplace(device, 2 * cache_bytes(device));
}

void Timer::flush_caches() {
  if (!flushed_) return;
  fill_bytes(stream_, flushed_->data(), 1, flushed_->size());
  stream_.synchronize();
}

void Timer::launch(const Candidate& c) {
  ArraySet& set = sets_[next_set_];
  next_set_ = (next_set_ + 1) % sets_.size();
  c.kernel->launch(stream_, c.config, c.grid ? &*c.grid : nullptr, set.words());
}

double Timer::on_host(const Candidate& c, int launches) {
  const auto begin = Clock::now();
  for (int i = 0; i < launches; ++i)
    launch(c);
  stream_.synchronize();
  return seconds_since(begin) / launches;
}

cuda::Graph& Timer::graph_of(const Candidate& c, int launches) {
  for (CapturedGraph& known : graphs_)
    if (known.kernel == c.kernel && known.config == c.config && known.launches == launches)
      return known.graph;
  cuda::GraphCapture capture(stream_);
  for (int i = 0; i < launches; ++i)
    launch(c);
  graphs_.push_back({c.kernel, c.config, launches, capture.end()});
  graphs_.back().graph.launch(stream_); // the first launch uploads the graph
  stream_.synchronize();
  return graphs_.back().graph;
}

double Timer::on_cuda(const Candidate& c, int launches) {
  // Short kernels are launched by a graph, since the host could not launch them as fast as they run.
  cuda::Graph* graph = launches > 1 ? &graph_of(c, launches) : nullptr;
  Event begin, end;
  begin.record(stream_);
  if (graph)
    graph->launch(stream_);
  else
    launch(c);
  end.record(stream_);
  stream_.synchronize();
  return end.elapsed_ms(begin) * 1e-3 / launches;
}

Timer::Sample Timer::sample(const Candidate& c, int launches) {
  // Restore inputs that launches overwrite; otherwise their values may overflow after many launches.
  for (ArraySet& set : sets_)
    if (set.restorable()) set.restore(stream_, contents_);
  flush_caches();
  if (stream_.device().is_cpu()) wake_threads();
  const long before = involuntary_switches();
  Sample s;
  s.seconds = stream_.device().kind() == DeviceKind::Cuda ? on_cuda(c, launches) : on_host(c, launches);
  if (plan_.noise > 0 && noise_.uniform() < plan_.noise) s.seconds *= 4;
  s.disturbed = stream_.device().is_cpu() && involuntary_switches() != before;
  return s;
}

int Timer::launches_of_sample(const Candidate& c) {
  if (stream_.device().is_emulated()) return 1;
  double& once = warm_up_seconds_;
  once = on_host(c, 1);
  if (stream_.device().is_cpu()) {
    if (flushed_) return 1;
    // Waking a thread, or other load, may have cost more than the launch, so try more launches.
    for (int launches = 4; once * launches < 10 * host_seconds && launches < most_launches; launches *= 4)
      once = std::min(once, on_host(c, launches));
    return std::clamp(static_cast<int>(std::ceil(host_seconds / std::max(once, 1e-9))), 1, most_launches);
  }
  once = std::min(once, on_cuda(c, 1));
  if (once >= graph_seconds || flushed_) return 1;
  return std::clamp(static_cast<int>(std::ceil(4 * graph_seconds / std::max(once, 1e-7))), 2, most_launches);
}

namespace {

// Collects the samples of one candidate.
struct Samples {
  std::vector<double> seconds;
  std::vector<bool> disturbed;

  void add(const Timer::Sample& s) {
    seconds.push_back(s.seconds);
    disturbed.push_back(s.disturbed);
  }
  Timing timing(int launches) const {
    const std::vector<double> calm = undisturbed(seconds, disturbed);
    Timing t;
    t.seconds = median_of(calm);
    t.quickest = least();
    t.interval = median_interval(calm);
    t.samples = static_cast<int>(seconds.size());
    t.launches = launches * t.samples;
    t.disturbed = static_cast<int>(std::count(disturbed.begin(), disturbed.end(), true));
    return t;
  }
  double least() const { return *std::min_element(seconds.begin(), seconds.end()); }
};

bool decided(const Timing& t, double best) {
  if (t.samples < 6) return false;
  if (t.interval.high - t.interval.low <= 2 * narrow * t.seconds) return true;
  return best > 0 && t.interval.low > best;
}

} // namespace

int Timer::screening_of(double sample_seconds) const {
  const double fitting = plan_.screening_seconds / std::max(sample_seconds, 1e-9);
  return static_cast<int>(std::clamp(fitting, 1.0, static_cast<double>(screening)));
}

Timing Timer::time(const Candidate& c, double best) {
  const int launches = launches_of_sample(c);
  Samples samples;
  const auto begin = Clock::now();
  int wanted = screening;
  for (int calm = 0; calm < wanted && static_cast<int>(samples.seconds.size()) < 3 * wanted;) {
    const Sample s = sample(c, launches);
    samples.add(s);
    calm += !s.disturbed;
    wanted = screening_of(samples.least() * launches);
    // For a slow kernel that is far too slow, the warm-up launch and this sample are enough.
    if (best > 0 && std::min(warm_up_seconds_, s.seconds) > std::max(4 * plan_.drop * best, 1e-3)) break;
  }
  if (best > 0 && samples.least() > plan_.drop * best) {
    Timing t = samples.timing(launches);
    t.dropped = true;
    return t;
  }
  for (;;) {
    const Timing t = samples.timing(launches);
    const double spent = seconds_since(begin);
    if (spent >= plan_.most_seconds || t.samples >= most_samples) return t;
    if (spent >= plan_.least_seconds && decided(t, best)) return t;
    samples.add(sample(c, launches));
  }
}

std::vector<Timing> Timer::interleaved(const std::vector<Candidate>& candidates, double seconds) {
  std::vector<int> launches;
  for (const Candidate& c : candidates)
    launches.push_back(launches_of_sample(c));
  std::vector<Samples> samples(candidates.size());
  const auto begin = Clock::now();
  const double budget = seconds * static_cast<double>(candidates.size());
  int rounds = screening;
  for (int round = 0; round < most_samples; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::size_t which = round % 2 ? candidates.size() - 1 - i : i;
      samples[which].add(sample(candidates[which], launches[which]));
    }
    if (round == 0) rounds = screening_of(seconds_since(begin) / static_cast<double>(candidates.size()));
    if (round >= rounds - 1 && seconds_since(begin) >= budget) break;
  }
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    timings.push_back(samples[i].timing(launches[i]));
  return timings;
}

} // namespace kiln::tune
