// Stores facts about code and converts them to columns.
#include "learned_facts.h"

#include <algorithm>
#include <cmath>

namespace kiln::tune {

void LearnedFacts::note(std::size_t candidate, const std::map<std::string, double>& facts) {
  for (const auto& [name, value] : facts)
    if (is_of_code(name)) facts_[candidate][name] = value;
}

std::vector<std::size_t> LearnedFacts::candidates() const {
  std::vector<std::size_t> known;
  for (const auto& [candidate, facts] : facts_)
    known.push_back(candidate);
  return known;
}

void LearnedFacts::choose_columns(std::span<const std::size_t> candidates) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (std::size_t candidate : candidates) {
    const auto at = facts_.find(candidate);
    if (at == facts_.end()) continue;
    for (const auto& [name, value] : at->second) {
      auto& [least, most] = ranges.try_emplace(name, value, value).first->second;
      least = std::min(least, value), most = std::max(most, value);
    }
  }
  columns_.clear();
  for (const auto& [name, range] : ranges)
    if (range.first < range.second) columns_.push_back(name);
}

void LearnedFacts::append(std::size_t candidate, std::span<const float> row, Rows& rows) const {
  const std::span<float> out = rows.add();
  std::copy(row.begin(), row.end(), out.begin());
  const auto known = facts_.find(candidate);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    float& value = out[row.size() + c] = std::nanf("");
    if (known == facts_.end()) continue;
    if (const auto fact = known->second.find(columns_[c]); fact != known->second.end())
      value = static_cast<float>(fact->second);
  }
}

} // namespace kiln::tune
