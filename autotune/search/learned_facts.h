// What the compiler told of candidates, as columns behind those of their knobs.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/space/trial.h>

#include <unordered_map>

namespace kiln::tune {

class LearnedFacts {
public:
  void note(std::size_t candidate, const std::map<std::string, double>& facts);
  bool known(std::size_t candidate) const { return facts_.contains(candidate); }
  std::vector<std::size_t> candidates() const; // those known, in no order

  // Columns are the facts that differ among those of these candidates that are known.
  void choose_columns(std::span<const std::size_t> candidates);
  std::size_t columns() const { return columns_.size(); }
  // The row with the candidate's facts behind it, NaN where they are not known.
  void append(std::size_t candidate, std::span<const float> row, Rows& rows) const;

private:
  std::unordered_map<std::size_t, std::map<std::string, double>> facts_;
  std::vector<std::string> columns_;
};

} // namespace kiln::tune
