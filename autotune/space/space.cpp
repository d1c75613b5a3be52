// Builds spaces from knobs, rules and seeds, and implements Choice, through which a rule reads a point.
#include <kiln/autotune/space/space.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace kiln::tune {

namespace {

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

template <class Names> std::string listed(const Names& names, auto text) {
  std::string list;
  for (const auto& n : names)
    list += (list.empty() ? "" : ", ") + std::string(text(n));
  return list.empty() ? "none" : list;
}

std::string knob_names(const std::vector<Knob>& knobs) {
  return listed(knobs, [](const Knob& k) { return k.name; });
}

std::string knob_values(const Knob& knob) {
  std::string list;
  for (std::size_t i = 0; i < knob.values.size() && i < 16; ++i)
    list += (i ? ", " : "") + knob.text(i);
  return knob.values.size() > 16 ? list + ", ..." : list;
}

std::optional<std::uint16_t> index_of_value(const Knob& knob, std::int64_t value) {
  const auto at = std::find(knob.values.begin(), knob.values.end(), value);
  if (at == knob.values.end()) return std::nullopt;
  return static_cast<std::uint16_t>(at - knob.values.begin());
}

std::uint16_t seed_value(const Knob& knob, std::int64_t value) {
  if (const auto index = index_of_value(knob, value)) return *index;
  throw UserError("tuning space: the seed's " + knob.name + " = " + std::to_string(value) +
                  " is not a value of that knob; it takes " + knob_values(knob));
}

std::size_t seed_knob(const std::vector<Knob>& knobs, std::string_view name) {
  for (std::size_t k = 0; k < knobs.size(); ++k)
    if (knobs[k].name == name) return k;
  throw UserError("tuning space: the seed names " + quoted(name) + ", which is not a knob of the space (" +
                  knob_names(knobs) + "); declare all knobs before the seeds");
}

} // namespace

bool fits(const std::vector<Knob>& knobs, const Point& point) {
  if (point.size() != knobs.size()) return false;
  for (std::size_t k = 0; k < knobs.size(); ++k)
    if (point[k] >= knobs[k].values.size()) return false;
  return true;
}

std::optional<std::int64_t> Problem::find(std::string_view name) const {
  for (const auto& [size_name, size] : sizes)
    if (size_name == name) return size;
  return std::nullopt;
}

std::int64_t Problem::operator[](std::string_view name) const {
  if (const auto size = find(name)) return *size;
  throw UserError("the problem has no size " + quoted(name) + "; its sizes are " +
                  listed(sizes, [](const auto& s) { return s.first; }));
}

std::string Problem::to_string() const {
  std::string text;
  for (const auto& [size_name, size] : sizes)
    text += (text.empty() ? "" : ",") + size_name + "=" + std::to_string(size);
  if (!kind.empty()) text += (text.empty() ? "" : " ") + kind;
  if (!key.empty()) text += (text.empty() ? "\"" : " \"") + key + "\"";
  return text;
}

std::string Knob::text(std::size_t index) const {
  return labels.empty() ? std::to_string(values[index]) : labels[index];
}

std::size_t PointHash::operator()(const Point& p) const noexcept {
  std::uint64_t h = p.size();
  for (const std::uint16_t index : p) {
    h = (h ^ index) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return static_cast<std::size_t>(h);
}

std::size_t Choice::find(std::string_view knob) const {
  const std::size_t at = reads_++;
  if (at < order_.size() && knobs_[order_[at]].name == knob) return order_[at];
  std::size_t k = 0;
  while (k < knobs_.size() && knobs_[k].name != knob)
    ++k;
  if (k == knobs_.size())
    throw UserError("the space has no knob " + quoted(knob) + "; its knobs are " + knob_names(knobs_));
  constexpr std::size_t most_remembered = 64; // a rule may read knobs in a loop
  if (at < most_remembered) {
    order_.resize(std::max(order_.size(), at + 1));
    order_[at] = static_cast<std::uint16_t>(k);
  }
  return k;
}

std::size_t Choice::index_of(std::string_view knob) const {
  const std::size_t k = find(knob);
  if (wants_ < 0) {
    read_ |= std::uint64_t{1} << k;
    if (!(known_ >> k & 1)) wants_ = static_cast<int>(k);
  }
  return k;
}

std::int64_t Choice::operator[](std::string_view knob) const {
  const std::size_t k = index_of(knob);
  return knobs_[k].values[point_[k]];
}

std::string_view Choice::label(std::string_view knob) const {
  const std::size_t k = index_of(knob);
  if (knobs_[k].labels.empty())
    throw UserError("knob " + quoted(knob) + " has numbers and no labels; read it as c[" + quoted(knob) +
                    "]");
  return knobs_[k].labels[point_[k]];
}

Space& Space::knob(Knob knob) {
  const std::string where = "tuning space: knob " + quoted(knob.name);
  if (knob.name.empty()) throw UserError("tuning space: a knob has no name; give it one");
  if (only_) throw UserError(where + " is declared after only(), whose points lack it; declare it before");
  for (const Knob& k : knobs_)
    if (k.name == knob.name) throw UserError(where + " is declared twice; remove one of them");
  if (knobs_.size() == most_knobs)
    throw UserError(where + " is one too many; a space holds at most " + std::to_string(most_knobs));
  if (knob.values.empty()) throw UserError(where + " has no values; give it at least one");
  if (knob.values.size() > UINT16_MAX)
    throw UserError(where + " has " + std::to_string(knob.values.size()) + " values, more than " +
                    std::to_string(UINT16_MAX) + "; use a larger step or powers of two");
  if (!knob.labels.empty() && knob.labels.size() != knob.values.size())
    throw UserError(where + " has " + std::to_string(knob.values.size()) + " values and " +
                    std::to_string(knob.labels.size()) + " labels; give it one label for each value");
  std::unordered_set<std::int64_t> seen;
  for (const std::int64_t v : knob.values)
    if (!seen.insert(v).second)
      throw UserError(where + " has the value " + std::to_string(v) + " twice; remove one of them");
  std::unordered_set<std::string_view> words;
  for (const std::string& label : knob.labels)
    if (!words.insert(label).second)
      throw UserError(where + " has the value " + quoted(label) + " twice; remove one of them");
  knobs_.push_back(std::move(knob));
  for (Point& s : seeds_)
    s.push_back(0);
  return *this;
}

Space& Space::pow2(KnobName name, std::int64_t least, std::int64_t most) {
  Knob k{std::move(name.text), {}, {}, true};
  for (std::uint64_t v = 1; v <= static_cast<std::uint64_t>(std::max<std::int64_t>(most, 0)); v *= 2)
    if (static_cast<std::int64_t>(v) >= least) k.values.push_back(static_cast<std::int64_t>(v));
  if (k.values.empty())
    throw UserError("tuning space: knob " + quoted(k.name) + " has no power of two from " +
                    std::to_string(least) + " to " + std::to_string(most) +
                    "; give the smallest value first, both at least 1");
  return knob(std::move(k));
}

Space& Space::range(KnobName name, std::int64_t least, std::int64_t most, std::int64_t step) {
  const std::string where = "tuning space: knob " + quoted(name.text);
  if (step < 1) throw UserError(where + " has the step " + std::to_string(step) + "; give it at least 1");
  if (most < least)
    throw UserError(where + " ranges from " + std::to_string(least) + " to " + std::to_string(most) +
                    ", which is empty; give the smallest value first");
  const std::uint64_t last = (static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least)) /
                             static_cast<std::uint64_t>(step);
  if (last >= UINT16_MAX)
    throw UserError(where + " has more than " + std::to_string(UINT16_MAX) +
                    " values; use a larger step or powers of two");
  Knob k{std::move(name.text), {}, {}, true};
  for (std::uint64_t i = 0; i <= last; ++i)
    k.values.push_back(least + static_cast<std::int64_t>(i * static_cast<std::uint64_t>(step)));
  return knob(std::move(k));
}

Space& Space::oneof(KnobName name, std::initializer_list<std::int64_t> values) {
  const bool ordered = std::is_sorted(values.begin(), values.end());
  return knob({std::move(name.text), values, {}, ordered});
}

Space& Space::oneof(KnobName name, std::initializer_list<const char*> words) {
  Knob k{std::move(name.text), {}, {}, false};
  for (const char* word : words) {
    k.values.push_back(static_cast<std::int64_t>(k.values.size()));
    k.labels.emplace_back(word);
  }
  return knob(std::move(k));
}

Space& Space::seed(std::initializer_list<std::pair<const char*, std::int64_t>> values) {
  Point point(knobs_.size(), 0);
  for (const auto& [name, value] : values) {
    const std::size_t k = seed_knob(knobs_, name);
    point[k] = seed_value(knobs_[k], value);
  }
  seeds_.push_back(std::move(point));
  return *this;
}

Space& Space::seed(const Config& config) {
  Point point(knobs_.size(), 0);
  for (const Binding& b : config) {
    const std::size_t k = seed_knob(knobs_, b.name);
    point[k] = seed_value(knobs_[k], b.value);
  }
  seeds_.push_back(std::move(point));
  return *this;
}

Space& Space::seed(Point point) {
  if (!fits(knobs_, point))
    throw UserError("tuning space: a seed does not fit the knobs (" + knob_names(knobs_) +
                    "); give it one index of a value for each knob");
  seeds_.push_back(std::move(point));
  return *this;
}

Space& Space::seed_near(const Config& config) {
  Point point(knobs_.size(), 0);
  for (std::size_t k = 0; k < knobs_.size(); ++k) {
    const auto wanted = config.get(knobs_[k].name);
    if (!wanted) continue;
    auto distance = [&](std::int64_t value) {
      return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(value, 1))) -
                      std::log2(static_cast<double>(std::max<std::int64_t>(*wanted, 1))));
    };
    const auto& values = knobs_[k].values;
    const auto nearest = std::min_element(values.begin(), values.end(),
                                          [&](auto a, auto b) { return distance(a) < distance(b); });
    const auto exact = std::find(values.begin(), values.end(), *wanted);
    point[k] = static_cast<std::uint16_t>((exact != values.end() ? exact : nearest) - values.begin());
  }
  seeds_.push_back(std::move(point));
  return *this;
}

Space& Space::keeps_order(std::initializer_list<KnobName> names) {
  for (const KnobName& name : names)
    order_keepers_.push_back(seed_knob(knobs_, name.text));
  return *this;
}

Space& Space::only_one_order() {
  if (seeds_.empty())
    throw UserError("tuning space: it has no seed that determines the order of additions; give it one");
  for (std::size_t k = 0; k < knobs_.size(); ++k) {
    if (std::find(order_keepers_.begin(), order_keepers_.end(), k) != order_keepers_.end()) continue;
    const std::int64_t value = knobs_[k].values[seeds_.front()[k]];
    require("the seed's order of additions: " + knobs_[k].name,
            [name = knobs_[k].name, value](const Choice& c) { return c[name] == value; });
  }
  return *this;
}

Space& Space::only(std::vector<Point> points) {
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!fits(knobs_, points[i]))
      throw UserError(
          "tuning space: point " + std::to_string(i) + " of only() does not fit the knobs (" +
          knob_names(knobs_) +
          "); declare all knobs before it, and give each point one index of a value for each knob");
  std::unordered_set<Point, PointHash> seen;
  std::erase_if(points, [&](const Point& p) { return !seen.insert(p).second; });
  only_ = std::make_shared<const std::vector<Point>>(std::move(points));
  return *this;
}

Space& Space::add_rule(std::string name, Rule rule) {
  if (name.empty())
    throw UserError("tuning space: a rule has no name; give it one, which reports can refer to");
  for (const NamedRule& r : rules_)
    if (r.name == name)
      throw UserError("tuning space: there are two rules named " + quoted(name) + "; rename one of them");
  rules_.push_back({std::move(name), std::move(rule)});
  return *this;
}

std::string Space::text() const {
  std::string text;
  for (const Knob& k : knobs_) {
    text += k.name + "=";
    for (std::size_t i = 0; i < k.values.size(); ++i)
      text += (i ? "," : "") + k.text(i);
    text += k.ordered ? "\n" : " unordered\n";
  }
  for (const NamedRule& r : rules_)
    text += "rule " + r.name + "\n";
  if (only_) {
    std::uint64_t all = 0;
    for (const Point& p : *only_)
      all += PointHash{}(p);
    text += "only " + std::to_string(only_->size()) + " points, " + std::to_string(all) + "\n";
  }
  return text;
}

} // namespace kiln::tune
