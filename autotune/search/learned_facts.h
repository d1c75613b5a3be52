// Keeps facts that the compiler reported about candidates, as additional columns for models.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/space/trial.h>

#include <unordered_map>

namespace kiln::tune {

class LearnedFacts {
public:
  void note(std::size_t candidate, const std::map<std::string, double>& facts);
  bool known(std::size_t candidate) const { return facts_.contains(candidate); }
  std::vector<std::size_t> candidates() const; // those with known facts, in no particular order

  // Chooses as columns the facts that differ among the given candidates with known facts.
  void choose_columns(std::span<const std::size_t> candidates);
  std::size_t columns() const { return columns_.size(); }
  // Appends the row followed by the candidate's facts, which are NaN if unknown.
  void append(std::size_t candidate, std::span<const float> row, Rows& rows) const;

private:
  std::unordered_map<std::size_t, std::map<std::string, double>> facts_;
  std::vector<std::string> columns_;
};

} // namespace kiln::tune
