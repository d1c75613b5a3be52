// Fits boosted trees to the trials of a run and splits their prediction for one config by knob.
#include <kiln/autotune/report/explain.h>

#include <kiln/autotune/model/boosted_trees.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

constexpr std::size_t least_trials = 8;
constexpr double least_effect = 0.005; // of a factor's logarithm; smaller effects are left out

void fill(std::span<float> row, const std::vector<Knob>& knobs, const Point& point) {
  for (std::size_t i = 0; i < knobs.size(); ++i)
    row[i] = static_cast<float>(knobs[i].values.empty() ? point[i] : knobs[i].values[point[i]]);
}

} // namespace

std::vector<std::pair<std::string, double>> knob_factors(const SearchResult& search,
                                                         const std::vector<Knob>& knobs, const Point& point) {
  TrainingSet set;
  set.rows.columns = knobs.size();
  for (const Trial& trial : search.trials) {
    if (!trial.result.ok() || trial.result.seconds <= 0) continue;
    fill(set.rows.add(), knobs, trial.point);
    set.labels.push_back(static_cast<float>(std::log(trial.result.seconds)));
  }
  std::vector<std::pair<std::string, double>> factors;
  if (set.labels.size() < least_trials || knobs.empty()) return factors;
  const BoostedTrees model = BoostedTrees::train(set, {.depth = 3});
  std::vector<float> row(knobs.size());
  fill(row, knobs, point);
  const std::vector<double> parts = model.contributions(row);
  for (std::size_t i = 0; i < knobs.size(); ++i)
    if (std::abs(parts[i]) >= least_effect) factors.emplace_back(knobs[i].name, std::exp(parts[i]));
  std::stable_sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) {
    return std::abs(std::log(a.second)) > std::abs(std::log(b.second));
  });
  return factors;
}

} // namespace kiln::tune
