// Finds related extents, and makes them smaller in proportion.
#include <kiln/autotune/measure/smaller_extents.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace kiln::tune {

namespace {

using Extents = std::vector<std::int64_t>;

std::int64_t smaller(std::int64_t extent) {
  return extent > 16 ? extent - 3 : extent > 2 ? extent - 1 : extent;
}

// Returns an extent whose last tile is a little less than a quarter full. The number of elements is odd, so
// that vectors are partial, too.
std::int64_t with_short_tile(std::int64_t extent, const Config& config) {
  constexpr std::int64_t least = 16;
  std::int64_t tile = 0;
  for (const Binding& binding : config)
    if (binding.value >= least && binding.value <= extent) tile = std::max(tile, binding.value);
  return tile == 0 ? extent : (extent / tile - 1) * tile + tile / 4 - 3;
}

bool divides(std::int64_t a, std::int64_t b) { return a > 1 && b > 1 && (a % b == 0 || b % a == 0); }

// Returns whether two views have the same shape except for factors along some axes.
bool is_scaled(const Extents& a, const Extents& b) {
  if (a.size() != b.size() || a == b) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !divides(a[i], b[i])) return false;
  return true;
}

bool has_both(const Extents& view, std::int64_t a, std::int64_t b) {
  return std::count(view.begin(), view.end(), a) && std::count(view.begin(), view.end(), b);
}

// Each extent and the set of those that it is related to, as a representative.
class Related {
public:
  explicit Related(const std::vector<Extents>& views) : views_(views) {
    for (const Extents& view : views)
      for (std::int64_t extent : view)
        parent_[extent] = extent;
    for (const Extents& a : views)
      for (const Extents& b : views)
        if (is_scaled(a, b)) join(a, b);
  }
  std::int64_t find(std::int64_t extent) const {
    while (parent_.at(extent) != extent)
      extent = parent_.at(extent);
    return extent;
  }
  std::map<std::int64_t, Extents> groups() const {
    std::map<std::int64_t, Extents> groups;
    for (const auto& [extent, above] : parent_)
      groups[find(extent)].push_back(extent);
    return groups;
  }

private:
  void join(const Extents& a, const Extents& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      const bool independent = std::any_of(views_.begin(), views_.end(), [&](const Extents& view) {
        return view != a && view != b && has_both(view, a[i], b[i]);
      });
      if (!independent) parent_[find(a[i])] = find(b[i]);
    }
  }

  const std::vector<Extents>& views_;
  std::map<std::int64_t, std::int64_t> parent_;
};

} // namespace

std::map<std::int64_t, std::int64_t> smaller_extents(const std::vector<Argument>& arguments,
                                                     const Config* config) {
  std::vector<Extents> views;
  std::set<std::int64_t> kept;
  for (const Argument& a : arguments) {
    if (a.kind != Argument::Kind::view) continue;
    views.push_back(a.extents);
    if (a.as_given) kept.insert(a.extents.begin(), a.extents.end());
  }
  std::map<std::int64_t, std::int64_t> chosen;
  for (const auto& [representative, group] : Related(views).groups()) {
    std::int64_t unit = 0;
    for (std::int64_t extent : group)
      unit = std::gcd(unit, extent);
    const bool fixed = unit == 0 || std::any_of(group.begin(), group.end(),
                                                [&](std::int64_t extent) { return kept.count(extent) > 0; });
    const std::int64_t chosen_unit = fixed ? unit : config ? with_short_tile(unit, *config) : smaller(unit);
    for (std::int64_t extent : group)
      chosen[extent] = fixed ? extent : extent / unit * chosen_unit;
  }
  return chosen;
}

} // namespace kiln::tune
