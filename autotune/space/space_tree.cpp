// Finds which knobs each rule reads, builds the graph of each component, and samples from it.
#include "space_tree.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::tune {

using Tree = BoundSpace::Tree;

namespace {
constexpr std::uint64_t bit(std::size_t k) { return std::uint64_t{1} << k; }
} // namespace

Tree::Tree(Space s, Problem p, Device d)
    : space(std::move(s)), problem(std::move(p)), device(d), knobs(space.knobs_), reads_(space.rules_.size()),
      orders_(space.rules_.size()) {
  for (const Knob& k : knobs) { // avoid 0 if there is another value, since rules often divide
    const auto at = std::find_if(k.values.begin(), k.values.end(), [](std::int64_t v) { return v != 0; });
    unknown_.push_back(static_cast<std::uint16_t>(at == k.values.end() ? 0 : at - k.values.begin()));
  }
}

Tree::Verdict Tree::ask(std::size_t rule, const Point& point, std::uint64_t known, int* wants) {
  ++asked_;
  const Choice choice(knobs, point, known, orders_[rule]);
  bool holds = false;
  std::string thrown;
  try {
    holds = space.rules_[rule].holds(choice, problem, device);
  } catch (const std::exception& e) {
    thrown = e.what();
  } catch (...) {
    thrown = "an object that is not a std::exception";
  }
  if (choice.read_ & ~reads_[rule]) {
    reads_[rule] |= choice.read_;
    grew_ = true;
  }
  if (wants) *wants = choice.wants_;
  if (choice.wants_ >= 0) return Verdict::open;
  if (thrown.empty()) return holds ? Verdict::holds : Verdict::fails;
  std::string values;
  for (std::size_t k = 0; k < knobs.size(); ++k)
    if (choice.read_ & bit(k))
      values += (values.empty() ? " for " : ", ") + knobs[k].name + " = " + knobs[k].text(point[k]);
  throw UserError("tuning space: rule \"" + space.rules_[rule].name + "\" threw" + values + ": " + thrown +
                  "; a rule must accept any values of the knobs");
}

// Calls the rules on random whole points, which reveals most of what they read.
void Tree::learn() {
  Random random(1);
  Point point(knobs.size());
  for (int round = 0; round < 16; ++round) {
    for (std::size_t k = 0; k < knobs.size(); ++k)
      point[k] = static_cast<std::uint16_t>(random.below(knobs[k].values.size()));
    for (std::size_t r = 0; r < reads_.size(); ++r)
      if (ask(r, point, all_knobs) == Verdict::fails) break; // contains() stops here too
  }
}

// Chooses the order of knobs that keeps the fewest combinations live. A knob is live once it has a value and
// while a rule that reads it also reads a knob without one. The next knob is always the one that leaves the
// fewest combinations of live knobs.
std::vector<std::uint16_t> Tree::order(std::uint64_t component) const {
  std::vector<std::uint16_t> result;
  std::uint64_t done = 0;
  while (done != component) {
    double least = 0;
    int best = -1;
    for (std::size_t k = 0; k < knobs.size(); ++k) {
      if (!(component & ~done & bit(k))) continue;
      const std::uint64_t now = done | bit(k);
      std::uint64_t live = 0;
      for (const std::uint64_t reads : reads_)
        if (reads & component & ~now) live |= reads & now;
      double combinations = 1;
      for (std::size_t i = 0; i < knobs.size(); ++i)
        if (live & bit(i)) combinations *= static_cast<double>(knobs[i].values.size());
      if (best < 0 || combinations < least) best = static_cast<int>(k), least = combinations;
    }
    result.push_back(static_cast<std::uint16_t>(best));
    done |= bit(static_cast<std::size_t>(best));
  }
  return result;
}

void Tree::split() {
  components.clear();
  refused = false;
  std::vector<std::uint64_t> sets(knobs.size());
  for (std::size_t k = 0; k < knobs.size(); ++k)
    sets[k] = bit(k);
  for (const std::uint64_t reads : reads_) {
    std::uint64_t joined = reads;
    for (std::size_t k = 0; k < knobs.size(); ++k)
      if (reads & bit(k)) joined |= sets[k];
    for (std::size_t k = 0; k < knobs.size(); ++k)
      if (joined & bit(k)) sets[k] = joined;
  }
  for (std::size_t k = 0; k < knobs.size(); ++k)
    if (std::countr_zero(sets[k]) == static_cast<int>(k)) {
      components.emplace_back();
      components.back().knobs = order(sets[k]);
    }
  for (std::size_t r = 0; r < reads_.size(); ++r) {
    int wants = -1;
    const Verdict verdict = ask(r, unknown_, 0, &wants);
    if (verdict == Verdict::fails) refused = true;
    if (verdict != Verdict::open) continue;
    for (Component& c : components)
      if (std::find(c.knobs.begin(), c.knobs.end(), wants) != c.knobs.end())
        c.open.push_back({static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(wants)});
  }
}

// Computes the rules that are open once `knob` has its value. Returns false if a rule rejects the value.
bool Tree::assign(std::uint16_t knob, const std::vector<Open>& before, std::vector<Open>& after,
                  const Point& point, std::uint64_t known) {
  after.clear();
  for (const Open& o : before) {
    if (o.wants != knob) {
      after.push_back(o);
      continue;
    }
    int wants = -1;
    const Verdict verdict = ask(o.rule, point, known, &wants);
    if (verdict == Verdict::fails) return false;
    if (verdict == Verdict::open) after.push_back({o.rule, static_cast<std::uint16_t>(wants)});
  }
  return true;
}

// Branches with equal keys have the same subtrees. The key holds the open rules and the values of the knobs
// that these read.
std::string key_of(const std::vector<Tree::Open>& open, const std::vector<std::uint64_t>& reads,
                   const Point& point, std::uint64_t known) {
  std::string text;
  auto add = [&](std::uint16_t v) { text.append(reinterpret_cast<const char*>(&v), sizeof v); };
  std::uint64_t read = 0;
  for (const Tree::Open& o : open)
    add(o.rule), read |= reads[o.rule];
  add(UINT16_MAX);
  for (std::uint64_t rest = read & known; rest; rest &= rest - 1)
    add(point[static_cast<std::size_t>(std::countr_zero(rest))]);
  return text;
}

// Builds one component's graph, depth first.
struct Tree::Builder {
  Tree& tree;
  Component& c;
  std::size_t limit;
  const Stop& stop;
  Point point;
  std::vector<std::vector<Open>> open; // the open rules at each depth
  std::vector<std::unordered_map<std::string, std::uint32_t>> known_nodes;
  bool gave_up = false;

  Builder(Tree& t, Component& component, std::size_t budget, const Stop& until)
      : tree(t), c(component), limit(t.asked_ + budget), stop(until), point(t.unknown_),
        open(component.knobs.size() + 1), known_nodes(component.knobs.size()) {
    c.nodes.assign(1, {0, 0, 1});
    c.branches.clear();
    open[0] = c.open;
    c.root = node(0, 0);
    c.counted = !gave_up;
    if (gave_up) c.nodes = {}, c.branches = {};
  }

  std::string key(std::size_t depth, std::uint64_t known) const {
    return key_of(open[depth], tree.reads_, point, known);
  }

  std::uint32_t node(std::size_t depth, std::uint64_t known) {
    // A rule that is still open here reads a knob outside of the component: its read set has just grown.
    if (depth == c.knobs.size()) return 0;
    const std::string k = key(depth, known);
    if (const auto at = known_nodes[depth].find(k); at != known_nodes[depth].end()) return at->second;
    const std::uint16_t knob = c.knobs[depth];
    std::vector<Branch> branches;
    long double members = 0;
    for (std::size_t v = 0; v < tree.knobs[knob].values.size(); ++v) {
      ++tree.asked_;
      point[knob] = static_cast<std::uint16_t>(v);
      if (!tree.assign(knob, open[depth], open[depth + 1], point, known | bit(knob))) continue;
      if (tree.grew_ || tree.asked_ > limit || tree.is_stopped(stop)) gave_up = true;
      if (gave_up) break;
      const std::uint32_t next = node(depth + 1, known | bit(knob));
      if (gave_up) break;
      if (c.nodes[next].members == 0) continue;
      members += c.nodes[next].members;
      branches.push_back({static_cast<std::uint16_t>(v), next, members});
    }
    point[knob] = tree.unknown_[knob];
    if (gave_up) return 0;
    c.nodes.push_back({static_cast<std::uint32_t>(c.branches.size()),
                       static_cast<std::uint32_t>(branches.size()), members});
    c.branches.insert(c.branches.end(), branches.begin(), branches.end());
    return known_nodes[depth][k] = static_cast<std::uint32_t>(c.nodes.size() - 1);
  }
};

void Tree::build(std::size_t budget, const Stop& stop) {
  if (given_up || budget <= budget_ || (budget_ && counted())) return;
  if (!budget_) learn();
  budget_ = budget;
  count(stop);
}

void Tree::count(const Stop& stop) {
  do {
    grew_ = false;
    allowed_.clear(), allowed_count_ = 0; // their keys depend on the read sets
    split();
    for (std::size_t i = 0; i < components.size() && !grew_; ++i) {
      Component& c = components[i];
      Builder(*this, c, budget_, stop);
      if (grew_ || c.counted) continue;
      Random random(2);
      long double sum = 0;
      constexpr int most_descents = 512;
      Point point = unknown_;
      int descents = 0;
      do {
        long double weight = 1;
        if (descend(c, point, random, weight)) sum += weight;
      } while (++descents < most_descents && !is_stopped(stop));
      c.estimate = static_cast<double>(sum / descents);
    }
  } while (grew_);
}

bool Tree::counted() const {
  return std::all_of(components.begin(), components.end(), [](const Component& c) { return c.counted; });
}

long double Tree::members() const {
  long double product = refused ? 0 : 1;
  for (const Component& c : components)
    product *= c.counted ? c.nodes[c.root].members : c.estimate;
  return product;
}

const std::vector<std::uint16_t>& Tree::allowed(std::uint16_t knob, const std::vector<Open>& open,
                                                Point& point, std::uint64_t known) {
  constexpr std::size_t most = 1u << 22; // 8 MiB of values
  if (allowed_count_ > most) allowed_.clear(), allowed_count_ = 0;
  std::string key = key_of(open, reads_, point, known & ~bit(knob));
  key.append(reinterpret_cast<const char*>(&knob), sizeof knob);
  if (const auto at = allowed_.find(key); at != allowed_.end()) return at->second;
  std::vector<std::uint16_t> values;
  std::vector<Open> after;
  for (std::size_t v = 0; v < knobs[knob].values.size(); ++v) {
    point[knob] = static_cast<std::uint16_t>(v);
    if (assign(knob, open, after, point, known)) values.push_back(point[knob]);
  }
  allowed_count_ += values.size() + 1;
  return allowed_.emplace(std::move(key), std::move(values)).first->second;
}

// Draws one member, or returns false at a dead end. `weight` is the product of the numbers of values to
// choose from.
bool Tree::descend(const Component& c, Point& point, Random& random, long double& weight) {
  std::vector<Open> open = c.open, next;
  std::uint64_t known = 0;
  for (const std::uint16_t k : c.knobs)
    point[k] = unknown_[k];
  for (const std::uint16_t k : c.knobs) {
    known |= bit(k);
    const bool asked = std::any_of(open.begin(), open.end(), [&](const Open& o) { return o.wants == k; });
    const std::size_t count = knobs[k].values.size();
    if (!asked) {
      point[k] = static_cast<std::uint16_t>(random.below(count));
      weight *= static_cast<long double>(count);
      continue;
    }
    const std::vector<std::uint16_t>& values = allowed(k, open, point, known);
    if (values.empty()) return false;
    point[k] = values[random.below(values.size())];
    weight *= static_cast<long double>(values.size());
    assign(k, open, next, point, known);
    std::swap(open, next);
  }
  return open.empty(); // else a rule read a new knob: reject until the graph is rebuilt
}

// Finds a member by backtracking, with the values in random order. This serves where descents find only dead
// ends.
bool Tree::search(const Component& c, Point& point, Random& random) {
  constexpr std::size_t most_questions = 300'000;
  const std::size_t limit = asked_ + most_questions;
  std::vector<std::vector<Open>> open(c.knobs.size() + 1);
  open[0] = c.open;
  for (const std::uint16_t k : c.knobs)
    point[k] = unknown_[k];
  auto go = [&](auto& self, std::size_t depth, std::uint64_t known) -> bool {
    if (depth == c.knobs.size()) return open[depth].empty();
    const std::uint16_t k = c.knobs[depth];
    std::vector<std::uint16_t> values(knobs[k].values.size());
    std::iota(values.begin(), values.end(), std::uint16_t{0});
    random.shuffle(values);
    for (const std::uint16_t v : values) {
      if (++asked_ > limit) return false;
      point[k] = v;
      if (assign(k, open[depth], open[depth + 1], point, known | bit(k)) &&
          self(self, depth + 1, known | bit(k)))
        return true;
    }
    point[k] = unknown_[k];
    return false;
  };
  return go(go, 0, 0);
}

bool Tree::draw_into(const Component& c, Point& point, Random& random) {
  if (c.counted) {
    if (c.nodes[c.root].members == 0) return false;
    std::uint32_t at = c.root;
    for (const std::uint16_t k : c.knobs) {
      const Node& n = c.nodes[at];
      const Branch* first = c.branches.data() + n.first;
      const Branch* last = first + n.branches;
      const long double x = static_cast<long double>(random.uniform()) * n.members;
      const Branch* b =
          std::upper_bound(first, last, x, [](long double v, const Branch& r) { return v < r.up_to; });
      if (b == last) --b; // x was rounded up to the total
      point[k] = b->value;
      at = b->node;
    }
    return true;
  }
  // Choose one of several descents with probability proportional to its weight, which is nearly uniform.
  constexpr int descents = 12;
  long double sum = 0;
  Point other = point;
  bool found = false;
  for (int i = 0; i < descents || (!found && i < 8 * descents); ++i) {
    long double weight = 1;
    if (!descend(c, other, random, weight)) continue;
    sum += weight;
    found = true;
    if (static_cast<long double>(random.uniform()) * sum < weight)
      for (const std::uint16_t k : c.knobs)
        point[k] = other[k];
  }
  return found || search(c, point, random);
}

std::optional<Point> Tree::draw(Random& random) {
  for (;;) {
    if (grew_ && !counted()) count({}); // a rule read a knob that it had not read before
    if (refused) return std::nullopt;
    Point point = unknown_;
    bool found = true;
    for (std::size_t i = 0; i < components.size() && found; ++i)
      found = draw_into(components[i], point, random);
    if (counted() || !grew_) return found ? std::optional(point) : std::nullopt;
  }
}

void Tree::each(const std::function<bool(const Point&)>& take) const {
  if (refused) return;
  Point point = unknown_;
  auto go = [&](auto& self, std::size_t component, std::size_t depth, std::uint32_t at) -> bool {
    if (component == components.size()) return take(point);
    const Component& c = components[component];
    if (depth == c.knobs.size())
      return self(self, component + 1, 0,
                  component + 1 < components.size() ? components[component + 1].root : 0);
    const Node n = c.nodes[at];
    for (std::uint32_t b = n.first; b < n.first + n.branches; ++b) {
      point[c.knobs[depth]] = c.branches[b].value;
      if (!self(self, component, depth + 1, c.branches[b].node)) return false;
    }
    return true;
  };
  go(go, 0, 0, components.empty() ? 0 : components[0].root);
}

} // namespace kiln::tune
