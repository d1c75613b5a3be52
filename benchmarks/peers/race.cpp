// Runs the rounds of a race, repeats disturbed ones, and decides when there are enough.
#include "race.h"

#include "benchmarks/numbers.h"
#include "placement.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double seconds_of(const std::function<void()>& run, std::int64_t times) {
  auto begin = Clock::now();
  for (std::int64_t i = 0; i < times; ++i)
    run();
  return since(begin) / static_cast<double>(times);
}

struct Turn {
  double seconds = 0;
  bool shared_core = false; // immediately before the timing or after it
};

Turn one_turn(const Contender& contender, const RaceOptions& options, CoreSharing* sharing) {
  constexpr double long_enough_alone = 0.1, shortest_batch = 50e-6;
  auto shared = [&] { return sharing && sharing->now(); };
  std::this_thread::sleep_for(std::chrono::duration<double>(options.pause));
  if (contender.timed) {
    const double seconds = contender.timed();
    return {seconds, shared()};
  }
  bool shared_before = shared();
  if (contender.starts_threads) Placement::unpin_caller();
  auto begin = Clock::now();
  double once = seconds_of(contender.run, 1);
  std::vector<double> times;
  if (once >= long_enough_alone) {
    times.push_back(once); // waking threads and raising the clock frequency is negligible in comparison
  } else {
    while (since(begin) < options.warm)
      once = seconds_of(contender.run, 1);
    auto batch = std::max<std::int64_t>(1, std::llround(shortest_batch / std::max(once, 1e-9)));
    if (!contender.starts_threads) shared_before = shared(); // the check needs the first CPU
    begin = Clock::now();
    do
      times.push_back(seconds_of(contender.run, batch));
    while (since(begin) < options.measure);
  }
  if (contender.starts_threads) Placement::pin_caller();
  return {median(times), shared() || shared_before};
}

double turn(const Contender& contender, const RaceOptions& options, CoreSharing* sharing) {
  constexpr int most = 24; // takes about a second; if all turns share a core, that is how this machine works
  Turn last;
  for (int i = 0; i < most; ++i) {
    last = one_turn(contender, options, sharing);
    if (!last.shared_core || last.seconds == 0) break;
    ++sharing->repeated;
  }
  return last.seconds;
}

// The relative standard error of the median of these turns, estimated from their interquartile range.
double uncertainty(std::vector<double> turns) {
  std::sort(turns.begin(), turns.end());
  const std::size_t quarter = turns.size() / 4;
  const double spread = turns[turns.size() - 1 - quarter] - turns[quarter];
  const double deviation = spread / 1.35; // of a normal distribution
  return 1.25 * deviation / std::sqrt(static_cast<double>(turns.size())) / median(turns);
}

// Whether the medians of Kiln, the first contender, and of the fastest peer are known well enough.
bool agree(const std::vector<Contender>& contenders, const std::vector<std::vector<double>>& times) {
  constexpr double enough = 0.02;
  const std::vector<double>* fastest = nullptr;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (double t = median(times[i]); contenders[i].role == Role::peer && t > 0)
      if (!fastest || t < median(*fastest)) fastest = &times[i];
  return uncertainty(times[0]) < enough && (!fastest || uncertainty(*fastest) < enough);
}

} // namespace

std::vector<double> race(const std::vector<Contender>& contenders, const RaceOptions& options,
                         CoreSharing* sharing) {
  std::vector<std::vector<double>> times(contenders.size());
  const bool own_choice = options.rounds == 0;
  int rounds = own_choice ? 1 : options.rounds;
  const auto begin = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i)
      times[i].push_back(turn(contenders[i], options, sharing));
    if (!own_choice) continue;
    if (round == 0) rounds = std::clamp(static_cast<int>(options.seconds / since(begin)), 3, 9);
    if (round + 1 == rounds && since(begin) < options.most_seconds && !agree(contenders, times)) ++rounds;
  }
  std::vector<double> medians;
  for (auto& t : times)
    medians.push_back(median(t));
  return medians;
}

} // namespace benchmarks
