// Implements the statistics of a report over its trials.
#include <kiln/autotune/report/statistics.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace kiln::tune {

namespace {

int sign(double x) { return (x > 0) - (x < 0); }

// Returns the indices of the `count` smallest values, in increasing order; of equal values the first are
// taken.
std::vector<std::size_t> least(std::span<const double> values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

// Returns the part of the variance of all numbers that lies between the groups.
double share_between(const std::vector<std::vector<double>>& groups) {
  double sum = 0, count = 0;
  for (const auto& group : groups)
    sum = std::accumulate(group.begin(), group.end(), sum), count += static_cast<double>(group.size());
  const double mean = sum / count;
  double all = 0, between = 0;
  for (const auto& group : groups) {
    if (group.empty()) continue;
    const double size = static_cast<double>(group.size());
    const double own = std::accumulate(group.begin(), group.end(), 0.0) / size;
    between += size * (own - mean) * (own - mean);
    for (double x : group)
      all += (x - mean) * (x - mean);
  }
  return all > 1e-12 ? between / all : not_known;
}

} // namespace

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::int64_t agree = 0, differ_a = 0, differ_b = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      const int in_a = sign(a[i] - a[j]), in_b = sign(b[i] - b[j]);
      agree += in_a * in_b, differ_a += in_a != 0, differ_b += in_b != 0;
    }
  if (differ_a == 0 || differ_b == 0) return not_known;
  return static_cast<double>(agree) /
         std::sqrt(static_cast<double>(differ_a) * static_cast<double>(differ_b));
}

double top_recall(std::span<const double> truth, std::span<const double> guess, std::size_t count) {
  const auto best = least(truth, count), chosen = least(guess, count);
  if (best.empty()) return not_known;
  std::vector<std::size_t> both;
  std::set_intersection(best.begin(), best.end(), chosen.begin(), chosen.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(best.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return not_known;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

KnobEffect knob_effect(std::size_t knob, std::size_t value_count, std::span<const Trial> trials) {
  KnobEffect effect;
  effect.values.resize(value_count);
  std::vector<std::vector<double>> times(value_count), logarithms(value_count);
  for (const Trial& trial : trials) {
    if (knob >= trial.point.size() || trial.point[knob] >= value_count) continue;
    const std::size_t value = trial.point[knob];
    ++effect.values[value].tried;
    if (!has_time(trial)) continue;
    times[value].push_back(trial.result.seconds);
    logarithms[value].push_back(std::log(trial.result.seconds));
  }
  for (std::size_t value = 0; value < value_count; ++value) {
    if (times[value].empty()) continue;
    KnobEffect::Value& v = effect.values[value];
    v.ok = static_cast<int>(times[value].size());
    v.best = *std::min_element(times[value].begin(), times[value].end());
    v.median = median(std::move(times[value]));
  }
  effect.share = share_between(logarithms);
  return effect;
}

std::vector<FailureKind> failures(std::span<const Trial> trials, std::size_t most_messages) {
  std::map<Status, std::map<std::string, int>> counts;
  for (const Trial& trial : trials)
    if (!trial.result.ok()) ++counts[trial.result.status][trial.result.error];
  std::vector<FailureKind> kinds;
  for (const auto& [status, messages] : counts) {
    FailureKind kind{.status = status, .messages = {messages.begin(), messages.end()}};
    for (const auto& [message, count] : messages)
      kind.count += count;
    std::stable_sort(kind.messages.begin(), kind.messages.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (kind.messages.size() > most_messages) kind.messages.resize(most_messages);
    kinds.push_back(std::move(kind));
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const FailureKind& a, const FailureKind& b) { return a.count > b.count; });
  return kinds;
}

} // namespace kiln::tune
