// Computes the columns of points, and products and ratios of columns.
#include <kiln/autotune/model/columns.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

bool is_size(const Rows& rows, std::size_t column) {
  float seen[2] = {missing, missing};
  bool third = false;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    float v = rows[r][column];
    if (!(v > 0) || !std::isfinite(v)) return false;
    if (std::isnan(seen[0]))
      seen[0] = v;
    else if (std::isnan(seen[1]) && v != seen[0])
      seen[1] = v;
    else
      third |= v != seen[0] && v != seen[1];
  }
  return third;
}

} // namespace

PairColumns::PairColumns(const Rows& rows, std::size_t most_sizes) {
  for (std::size_t c = 0; c < rows.columns && sizes_.size() < most_sizes; ++c)
    if (is_size(rows, c)) sizes_.push_back(c);
}

Rows PairColumns::expand(const Rows& rows) const {
  Rows result;
  result.columns = rows.columns + count();
  result.values.reserve(rows.size() * result.columns);
  std::vector<float> logs(sizes_.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::span<const float> from = rows[r];
    std::span<float> to = result.add();
    std::copy(from.begin(), from.end(), to.begin());
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      logs[i] = from[sizes_[i]] > 0 ? std::log2(from[sizes_[i]]) : missing;
    std::size_t at = from.size();
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      for (std::size_t j = i + 1; j < sizes_.size(); ++j) {
        to[at++] = logs[i] + logs[j];
        to[at++] = logs[i] - logs[j];
      }
  }
  return result;
}

PointColumns::PointColumns(const SearchContext& context)
    : context_(context), knobs_(context.space.knobs().size()) {
  if (!context.columns) return;
  const std::vector<Knob>& knobs = context.space.knobs();
  given_.resize(context.column_names.size());
  for (std::size_t c = 0; c < given_.size(); ++c)
    if (std::none_of(knobs.begin(), knobs.end(),
                     [&](const Knob& k) { return k.name == context.column_names[c]; }))
      kept_.push_back(c);
}

void PointColumns::fill(const Point& point, std::span<float> row) {
  std::size_t at = 0;
  for (; at < knobs_; ++at)
    row[at] = static_cast<float>(context_.space.value(point, at));
  if (!kept_.empty()) {
    context_.columns(point, given_);
    for (std::size_t c : kept_)
      row[at++] = given_[c];
  }
  if (context_.prior) row[at] = static_cast<float>(log_prior(point));
}

void PointColumns::fill_sibling(const Point& point, std::span<float> row) const {
  context_.columns(point, row);
}

double PointColumns::log_prior(const Point& point) const {
  double seconds = context_.prior(point);
  return seconds > 0 && std::isfinite(seconds) ? std::log(seconds) : std::numeric_limits<double>::quiet_NaN();
}

} // namespace kiln::tune
