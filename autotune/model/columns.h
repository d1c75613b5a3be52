// What a model sees of points: their knobs and what the context tells of them, as columns of numbers.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

// Columns for the logarithms of products and ratios of sizes. A tree asks about one column at a time: the
// area of a tile or its aspect, which often decide, would cost it many splits.
class PairColumns {
public:
  // Sizes are the columns that are positive in all of `rows` and have at least three values.
  explicit PairColumns(const Rows& rows, std::size_t most_sizes = 10);
  std::size_t count() const { return sizes_.size() * (sizes_.size() - (sizes_.empty() ? 0 : 1)); }
  Rows expand(const Rows& rows) const; // with these columns behind the others

private:
  std::vector<std::size_t> sizes_;
};

// Of each point: the values of its knobs, then the context's columns that are not knobs by name, then the
// logarithm of the prior where there is one.
class PointColumns {
public:
  explicit PointColumns(const SearchContext& context);
  std::size_t count() const { return knobs_ + kept_.size() + (context_.prior ? 1 : 0); }
  void fill(const Point& point, std::span<float> row);
  // The context's columns, as siblings have them.
  std::size_t sibling_count() const { return context_.columns ? context_.column_names.size() : 0; }
  void fill_sibling(const Point& point, std::span<float> row) const;
  double log_prior(const Point& point) const; // NaN where the prior has no finite, positive answer

private:
  const SearchContext& context_;
  std::size_t knobs_;
  std::vector<std::size_t> kept_;
  std::vector<float> given_;
};

} // namespace kiln::tune
