// Holds the candidates of the learned search, with what is known of each before it is measured.
#pragma once

#include <kiln/autotune/model/columns.h>
#include <kiln/autotune/random.h>
#include <kiln/autotune/search/learned.h>

#include <optional>
#include <unordered_map>

namespace kiln::tune {

class LearnedCandidates {
public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Contains all points, or in large spaces a sample, to which others are added later.
  LearnedCandidates(const SearchContext& context, const LearnedOptions& options, Random& random);

  std::size_t size() const { return points_.size(); }
  bool complete() const { return complete_; } // contains all points of the space
  const Point& point(std::size_t at) const { return points_[at]; }
  const Rows& rows() const { return rows_; } // the inputs of models
  std::size_t find(const Point& point) const;
  std::size_t add(const Point& point); // the index; none if it is not a member of the space
  void add_neighbours(std::size_t at);

  // The log of the time that siblings or else the analytic model predict, relative to the smallest.
  bool has_prior() const { return has_prior_; }
  bool has_siblings() const { return sibling_model_.has_value(); }
  double prior(std::size_t at) const;

  bool taken(std::size_t at) const { return taken_[at]; }
  void take(std::size_t at) { taken_[at] = true; }
  void give_back(std::size_t at) { taken_[at] = false; }
  std::size_t draw(Random& random) const;                // a candidate that is not taken, or none
  double similarity(std::size_t a, std::size_t b) const; // 1 if equal, 0 if no knob is similar

private:
  std::size_t insert(const Point& point);
  void learn_prior();
  void extend_prior();
  void extend_rows();

  const SearchContext& context_;
  PointColumns columns_;
  std::vector<Point> points_;
  std::unordered_map<Point, std::size_t, PointHash> index_;
  std::vector<bool> taken_;
  bool complete_ = false;
  Rows base_, rows_; // without and with columns of pairs
  std::optional<PairColumns> pairs_, sibling_pairs_;
  bool has_prior_ = false;
  std::optional<BoostedTrees> sibling_model_;
  std::vector<double> prior_;
  double prior_start_ = 0;
};

} // namespace kiln::tune
