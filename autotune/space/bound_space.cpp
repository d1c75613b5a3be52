// Implements spaces that are bound to a problem and a device: membership, size, sampling, neighbours.
#include "space_tree.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::tune {

namespace {

constexpr std::size_t quick_budget = 600'000;   // rule calls for counting: a tenth of a second
constexpr std::size_t long_budget = 16'000'000; // rule calls before listing is given up
constexpr std::size_t most_asked = 1u << 16;    // calls of the compiler's check for a list

} // namespace

BoundSpace::BoundSpace(Space space, Problem problem, Device device, std::function<bool(const Point&)> legal)
    : space_(std::move(space)), problem_(std::move(problem)), device_(device), legal_(std::move(legal)),
      tree_(std::make_shared<Tree>(space_, problem_, device_)) {
  if (space_.only_) tree_->listed.insert(space_.only_->begin(), space_.only_->end());
}

std::string BoundSpace::refused_by(const Point& point) const {
  if (!fits(knobs(), point)) return "not one of its values";
  if (space_.only_ && !tree_->listed.contains(point)) return "not in the list";
  for (std::size_t r = 0; r < space_.rules_.size(); ++r)
    if (tree_->ask(r, point, all_knobs) != Tree::Verdict::holds) return space_.rules_[r].name;
  if (!legal_) return {};
  if (tree_->legal.size() > 1u << 20) tree_->legal.clear();
  const auto [at, is_new] = tree_->legal.try_emplace(point, false);
  if (is_new) {
    try {
      at->second = legal_(point);
    } catch (...) {
      tree_->legal.erase(at);
      throw;
    }
  }
  return at->second ? "" : "the compiler";
}

bool BoundSpace::contains(const Point& point) const { return refused_by(point).empty(); }

std::string BoundSpace::what_refuses() const {
  if (space_.only_ && space_.only_->empty()) return "the list of points is empty";
  constexpr int draws = 1000;
  std::map<std::string, int> refusals;
  Random random(3);
  Point point(knobs().size());
  for (int i = 0; i < draws; ++i) {
    if (space_.only_)
      point = (*space_.only_)[random.below(space_.only_->size())];
    else
      for (std::size_t k = 0; k < point.size(); ++k)
        point[k] = static_cast<std::uint16_t>(random.below(knobs()[k].values.size()));
    const std::string by = refused_by(point);
    if (!by.empty()) ++refusals[by];
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [by, count] : refusals)
    sorted.emplace_back(-count, by);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (const auto& [count, by] : sorted) {
    const int percent = std::max(1, -count * 100 / draws);
    text += (text.empty() ? "" : ", ") + (by == "the compiler" ? by : "\"" + by + "\"") + " rejects " +
            std::to_string(percent) + " %";
  }
  return text.empty() ? "no rule rejects anything" : text + " of all combinations";
}

const std::vector<Point>* BoundSpace::points(std::size_t most, const Stop& stop) {
  Tree& tree = *tree_;
  if (tree.all) return tree.all->size() <= most ? &*tree.all : nullptr;
  if (tree.given_up || (tree.too_many && most <= tree.too_many)) return nullptr;
  std::vector<Point> members;
  std::size_t asked = 0;
  bool complete = true;
  auto take = [&](const Point& p) {
    if ((legal_ && ++asked > most_asked) || tree.is_stopped(stop)) return complete = false;
    if (!contains(p)) return true;
    if (members.size() == most) return complete = false;
    members.push_back(p);
    return true;
  };
  if (space_.only_) {
    for (const Point& p : *space_.only_)
      if (!take(p)) break;
  } else {
    tree.build(quick_budget, stop);
    if (!tree.counted() && tree.members() < 64.0L * static_cast<long double>(most))
      tree.build(long_budget, stop);
    complete = tree.counted() && (legal_ || tree.members() <= static_cast<long double>(most));
    if (complete && legal_)
      tree.each(take);
    else if (complete)
      tree.each([&](const Point& p) {
        members.push_back(p);
        return true;
      });
    std::sort(members.begin(), members.end());
  }
  if (!complete) {
    tree.too_many = most;
    return nullptr;
  }
  tree.all = std::move(members);
  return &*tree.all;
}

double BoundSpace::size(bool* exact) {
  Tree& tree = *tree_;
  auto answer = [&](double n, bool is_exact) {
    if (exact) *exact = is_exact;
    return n;
  };
  if (tree.all) return answer(static_cast<double>(tree.all->size()), true);
  if (tree.size) return answer(tree.size->first, tree.size->second);
  if (!space_.only_) tree.build(quick_budget);
  double n = space_.only_ ? static_cast<double>(tree.listed.size()) : static_cast<double>(tree.members());
  bool is_exact = space_.only_ ? space_.rules_.empty() && !legal_ : tree.counted() && !legal_;
  if (!is_exact && n <= (legal_ ? 4096 : 1 << 20) && points())
    return answer(static_cast<double>(tree.all->size()), true);
  if (!is_exact && legal_ && n > 0) { // the fraction that the compiler accepts, among points drawn without it
    constexpr int draws = 256;
    Random random(4);
    int taken = 0;
    for (int i = 0; i < draws; ++i) {
      const auto p = space_.only_ ? std::optional((*space_.only_)[random.below(space_.only_->size())])
                                  : tree.draw(random);
      if (p && contains(*p)) ++taken;
    }
    n *= static_cast<double>(taken) / draws;
  }
  tree.size = {n, is_exact};
  return answer(n, is_exact);
}

std::optional<Point> BoundSpace::sample(Random& random) {
  Tree& tree = *tree_;
  if (!tree.all) {
    if (!space_.only_) tree.build(quick_budget);
    if (space_.only_ && space_.only_->empty()) return std::nullopt;
    const int tries = legal_ || space_.only_ ? 512 : 1;
    for (int i = 0; i < tries; ++i) {
      if (space_.only_) {
        const Point& p = (*space_.only_)[random.below(space_.only_->size())];
        if (contains(p)) return p;
        continue;
      }
      auto p = tree.draw(random);
      if (!p || !legal_ || contains(*p)) return p;
    }
  }
  const auto* list = points();
  if (!list || list->empty()) return std::nullopt;
  return (*list)[random.below(list->size())];
}

std::vector<Point> BoundSpace::neighbours(const Point& point) const {
  if (!fits(knobs(), point)) return {};
  std::vector<Point> result;
  Point p = point;
  for (std::size_t k = 0; k < knobs().size(); ++k) {
    for (std::size_t v = 0; v < knobs()[k].values.size(); ++v) {
      if (v == point[k]) continue;
      p[k] = static_cast<std::uint16_t>(v);
      if (contains(p)) result.push_back(p);
    }
    p[k] = point[k];
  }
  return result;
}

std::vector<Point> BoundSpace::seeds() const {
  std::vector<Point> result;
  for (const Point& s : space_.seeds_)
    if (contains(s) && std::find(result.begin(), result.end(), s) == result.end()) result.push_back(s);
  return result;
}

Config BoundSpace::config(const Point& point) const {
  Config config;
  for (std::size_t k = 0; k < knobs().size(); ++k)
    if (knobs()[k].labels.empty()) config.set(knobs()[k].name, value(point, k));
  return config;
}

std::optional<Point> BoundSpace::point(const Config& config) const {
  Point point(knobs().size(), 0);
  for (std::size_t k = 0; k < knobs().size(); ++k) {
    if (!knobs()[k].labels.empty()) continue;
    const auto v = config.get(knobs()[k].name);
    if (!v) return std::nullopt;
    const auto& values = knobs()[k].values;
    const auto at = std::find(values.begin(), values.end(), *v);
    if (at == values.end()) return std::nullopt;
    point[k] = static_cast<std::uint16_t>(at - values.begin());
  }
  return point;
}

std::string BoundSpace::text(const Point& point) const {
  std::string text;
  for (std::size_t k = 0; k < knobs().size(); ++k)
    text += (k ? "," : "") + knobs()[k].name + "=" + knobs()[k].text(point[k]);
  return text;
}

} // namespace kiln::tune
