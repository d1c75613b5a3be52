// Implements the constraint tree of a bound space, which counts and samples points without listing them.
//
// Knobs get values one after the other. A rule is called as soon as the knob that it waits for has a value.
// Its result counts once it has read only knobs that have a value. A branch that a rule rejects is never
// entered.
//
// The tree learns which knobs a rule reads by observing it. Knobs that no rule connects, directly or through
// other knobs, form independent components: their sizes multiply, and each component is sampled separately.
// Two branches of a component that have the same open rules, and the same values of the knobs that those
// rules read, have the same subtrees. The tree therefore becomes a much smaller graph (as in a decision
// diagram):
//
//   a, b, c = 1..8;  "ab": a * b <= 16;  "bc": c divides b
//   after a and b, "ab" is decided, and only b matters for the rest: 8 nodes, not 64
//
// This is exact although the read sets are only observed. A rule is a pure function, so the first knob that
// it reads is fixed, and each later read depends only on the values read before. If every call read only
// knobs in the observed set, then all branches with the same values of that set get the same results. If a
// call reads another knob, the set grows and the component is built again.
//
// A component whose graph exceeds its budget is sampled by random descents instead. Each is weighted by the
// product of the numbers of values that it could choose from (Knuth, "Estimating the efficiency of backtrack
// programs", 1975).
#pragma once

#include <kiln/autotune/space/space.h>

#include <unordered_map>
#include <unordered_set>

namespace kiln::tune {

// Returns whether the point has a valid value index for each knob.
bool fits(const std::vector<Knob>& knobs, const Point& point);

inline constexpr std::uint64_t all_knobs = ~std::uint64_t{0}; // the set of all knobs

struct BoundSpace::Tree {
  enum class Verdict : std::uint8_t { holds, fails, open };
  struct Open { // a rule that waits for the knob `wants`
    std::uint16_t rule, wants;
  };
  struct Branch {
    std::uint16_t value;
    std::uint32_t node;
    long double up_to; // members of this branch and of those before it
  };
  struct Node {
    std::uint32_t first = 0, branches = 0;
    long double members = 0;
  };
  struct Component {
    std::vector<std::uint16_t> knobs; // in the order in which they get values
    std::vector<Open> open;           // the rules that are open when no knob has a value
    bool counted = false;
    std::uint32_t root = 0;
    std::vector<Node> nodes; // if counted; node 0 stands for "all knobs have values"
    std::vector<Branch> branches;
    double estimate = 0; // of the number of members, if not counted
  };

  Tree(Space s, Problem p, Device d);
  Tree(const Tree&) = delete;

  // Learns what the rules read, then counts each component with at most `budget` rule calls. It does this
  // again only for a larger budget. Once `stop` has returned true, what has not been counted stays uncounted.
  void build(std::size_t budget, const Stop& stop = {});
  bool counted() const;        // all components are counted
  long double members() const; // by the rules alone; an estimate unless counted()
  std::optional<Point> draw(Random& random);
  // Calls `take` with every member until it returns false. The tree must be counted().
  void each(const std::function<bool(const Point&)>& take) const;

  // The result is sticky: once one caller's `stop` ended the counting, later callers do not begin it again.
  bool is_stopped(const Stop& stop) { return given_up = given_up || (stop && stop()); }
  Verdict ask(std::size_t rule, const Point& point, std::uint64_t known, int* wants = nullptr);

  const Space space;
  const Problem problem;
  const Device device;
  const std::vector<Knob>& knobs; // of `space`
  std::vector<Component> components;
  bool refused = false;  // by a rule that reads no knob
  bool given_up = false; // a `stop` ended the counting

  // State that BoundSpace keeps here.
  std::unordered_set<Point, PointHash> listed; // the points of only()
  std::optional<std::vector<Point>> all;       // all members, once they were listed
  std::size_t too_many = 0;                    // if not 0: a previous attempt found more members than this
  std::optional<std::pair<double, bool>> size; // and whether it is exact
  std::unordered_map<Point, bool, PointHash> legal; // results of the compiler's check

private:
  struct Builder;
  void learn();
  void count(const Stop& stop); // with a budget of `budget_`
  void split();
  std::vector<std::uint16_t> order(std::uint64_t component) const;
  bool descend(const Component& c, Point& point, Random& random, long double& weight);
  bool search(const Component& c, Point& point, Random& random);
  bool assign(std::uint16_t knob, const std::vector<Open>& before, std::vector<Open>& after,
              const Point& point, std::uint64_t known);
  bool draw_into(const Component& c, Point& point, Random& random);
  // Returns the values of a knob that no open rule rejects; the result is cached per key_of().
  const std::vector<std::uint16_t>& allowed(std::uint16_t knob, const std::vector<Open>& open, Point& point,
                                            std::uint64_t known);

  std::vector<std::uint64_t> reads_;               // the observed read set of each rule
  std::vector<std::vector<std::uint16_t>> orders_; // the read order of each rule: see Choice
  Point unknown_; // the value indices that rules see for knobs without a value
  std::size_t budget_ = 0, asked_ = 0;
  bool grew_ = false; // a read set has grown since this was last cleared
  std::unordered_map<std::string, std::vector<std::uint16_t>> allowed_; // by knob and key_of()
  std::size_t allowed_count_ = 0; // the number of values in all its entries
};

} // namespace kiln::tune
