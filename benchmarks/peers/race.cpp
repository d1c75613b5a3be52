// Turns, medians, and where threads run.
#include "race.h"

#include "../numbers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sched.h>
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

double turn(const Contender& contender, const RaceOptions& options) {
  constexpr double long_enough_alone = 0.1, shortest_batch = 50e-6;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.pause));
  if (contender.outside) return contender.outside();
  if (contender.starts_threads) Placement::unpin_caller();
  auto begin = Clock::now();
  double once = seconds_of(contender.run, 1);
  std::vector<double> times;
  if (once >= long_enough_alone) {
    times.push_back(once); // waking threads and clocks is nothing beside it
  } else {
    while (since(begin) < options.warm)
      once = seconds_of(contender.run, 1);
    auto batch = std::max<std::int64_t>(1, std::llround(shortest_batch / std::max(once, 1e-9)));
    begin = Clock::now();
    do
      times.push_back(seconds_of(contender.run, batch));
    while (since(begin) < options.measure);
  }
  if (contender.starts_threads) Placement::pin_caller();
  return median(times);
}

// The standard error of the median of these turns, as a share of it, by what lies between their quartiles.
double uncertainty(std::vector<double> turns) {
  std::sort(turns.begin(), turns.end());
  const std::size_t quarter = turns.size() / 4;
  const double spread = turns[turns.size() - 1 - quarter] - turns[quarter];
  const double deviation = spread / 1.35; // of a normal distribution
  return 1.25 * deviation / std::sqrt(static_cast<double>(turns.size())) / median(turns);
}

// Whether turns of Kiln, which is the first, and of the fastest peer agree so far.
bool agree(const std::vector<Contender>& contenders, const std::vector<std::vector<double>>& times) {
  constexpr double enough = 0.02;
  const std::vector<double>* fastest = nullptr;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (double t = median(times[i]); contenders[i].role == Role::peer && t > 0)
      if (!fastest || t < median(*fastest)) fastest = &times[i];
  return uncertainty(times[0]) < enough && (!fastest || uncertainty(*fastest) < enough);
}

const cpu_set_t& process_mask() {
  static const cpu_set_t mask = [] {
    cpu_set_t m;
    CPU_ZERO(&m);
    sched_getaffinity(0, sizeof m, &m);
    return m;
  }();
  return mask;
}

std::vector<int> process_cpus() {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &process_mask())) cpus.push_back(cpu);
  return cpus;
}

void pin(int thread, int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(thread, sizeof one, &one); // best effort: without it numbers are noisier
}

std::vector<int> threads_of_this_process() {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  return threads;
}

} // namespace

std::vector<double> race(const std::vector<Contender>& contenders, const RaceOptions& options) {
  std::vector<std::vector<double>> times(contenders.size());
  const bool own_choice = options.rounds == 0;
  int rounds = own_choice ? 1 : options.rounds;
  const auto begin = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i)
      times[i].push_back(turn(contenders[i], options));
    if (!own_choice) continue;
    if (round == 0) rounds = std::clamp(static_cast<int>(options.seconds / since(begin)), 3, 9);
    if (round + 1 == rounds && since(begin) < options.most_seconds && !agree(contenders, times)) ++rounds;
  }
  std::vector<double> medians;
  for (auto& t : times)
    medians.push_back(median(t));
  return medians;
}

Placement::Placement() {
  process_mask();
  leave_present_threads();
}

void Placement::leave_present_threads() { known_ = threads_of_this_process(); }

void Placement::pin_new_threads() {
  auto cpus = process_cpus();
  std::size_t next = 1;
  for (int thread : threads_of_this_process())
    if (std::find(known_.begin(), known_.end(), thread) == known_.end() && cpus.size() > 1) {
      pin(thread, cpus[next]);
      next = next + 1 < cpus.size() ? next + 1 : 1;
    }
  leave_present_threads();
}

void Placement::pin_caller() { pin(0, process_cpus().front()); }
void Placement::unpin_caller() { sched_setaffinity(0, sizeof(cpu_set_t), &process_mask()); }

} // namespace benchmarks
