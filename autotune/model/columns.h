// Converts points to rows of numbers for models: the values of their knobs and the context's columns.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

// Adds columns with the logarithms of products and ratios of sizes. A tree tests one column at a time, so the
// area or the aspect ratio of a tile, which often matter, would otherwise need many splits.
class PairColumns {
public:
  // Sizes are the columns that are positive in all of `rows` and have at least three different values.
  explicit PairColumns(const Rows& rows, std::size_t most_sizes = 10);
  std::size_t count() const { return sizes_.size() * (sizes_.size() - (sizes_.empty() ? 0 : 1)); }
  Rows expand(const Rows& rows) const; // appends these columns to the others

private:
  std::vector<std::size_t> sizes_;
};

// The columns of a point are the values of its knobs, then the context's columns whose names are not those of
// knobs, then the logarithm of the prior if there is one.
class PointColumns {
public:
  explicit PointColumns(const SearchContext& context);
  std::size_t count() const { return knobs_ + kept_.size() + (context_.prior ? 1 : 0); }
  void fill(const Point& point, std::span<float> row);
  // The context's columns only, as siblings have them.
  std::size_t sibling_count() const { return context_.columns ? context_.column_names.size() : 0; }
  void fill_sibling(const Point& point, std::span<float> row) const;
  double log_prior(const Point& point) const; // NaN if the prior is not finite and positive

private:
  const SearchContext& context_;
  std::size_t knobs_;
  std::vector<std::size_t> kept_;
  std::vector<float> given_;
};

} // namespace kiln::tune
