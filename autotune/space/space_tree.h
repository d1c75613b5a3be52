// The constraint tree of a bound space, for counting and drawing points without listing them.
//
// Knobs get values one after the other. A rule is asked as soon as the knob that it waits for has one, and
// what it answers counts once it read nothing that lacks a value; a branch that it refuses is never entered.
//
// Which knobs a rule reads is learnt by watching it. Knobs that no rule connects, directly or through others,
// make independent components: sizes multiply, and each is drawn on its own. Inside a component two branches
// with the same rules open, and the same values of what those rules read, have the same future, so that
// branches become nodes of a graph much smaller than the tree (as in a decision diagram):
//
//   a, b, c = 1..8;  "ab": a * b <= 16;  "bc": c divides b
//   after a and b, "ab" is settled, and only b matters for the rest: 8 nodes, not 64
//
// Why this is exact although the read sets are only observed: a rule is a pure function, so what it reads
// first is fixed, and what it reads next depends on the values of what it read before. If every answer that
// was asked for stayed inside the observed set, then any branch with the same values of that set gets the
// same answers. If one does not, the set grows and the component is built again.
//
// A component whose graph exceeds its budget is drawn from by random descents instead, weighted by the number
// of ways each had to choose from (Knuth, "Estimating the efficiency of backtrack programs", 1975).
#pragma once

#include <kiln/autotune/space/space.h>

#include <unordered_map>
#include <unordered_set>

namespace kiln::tune {

// Whether a point has one index of a value for each knob.
bool fits(const std::vector<Knob>& knobs, const Point& point);

inline constexpr std::uint64_t all_knobs = ~std::uint64_t{0}; // as a set of knobs

struct BoundSpace::Tree {
  enum class Verdict : std::uint8_t { holds, fails, open };
  struct Open { // a rule that waits for a knob
    std::uint16_t rule, wants;
  };
  struct Branch {
    std::uint16_t value;
    std::uint32_t node;
    long double up_to; // members of this branch and those before it
  };
  struct Node {
    std::uint32_t first = 0, branches = 0;
    long double members = 0;
  };
  struct Component {
    std::vector<std::uint16_t> knobs; // in the order in which they get values
    std::vector<Open> open;           // rules when none has one
    bool counted = false;
    std::uint32_t root = 0;
    std::vector<Node> nodes; // of a counted one; node 0 is the empty rest
    std::vector<Branch> branches;
    double estimate = 0; // of members, where it is not counted
  };

  Tree(Space s, Problem p, Device d);
  Tree(const Tree&) = delete;

  // Learns, counts what can be counted with `budget` questions to rules for each component; again only if the
  // budget is larger than before.
  // Once `stop` said so, what is not counted yet stays so.
  void build(std::size_t budget, const Stop& stop = {});
  bool counted() const;        // all components
  long double members() const; // by the rules alone; an estimate where not counted()
  std::optional<Point> draw(Random& random);
  // Calls `take` with every member until it returns false. Only where counted().
  void each(const std::function<bool(const Point&)>& take) const;

  // For good, so that one who has no time is not kept by the next that asks.
  bool is_stopped(const Stop& stop) { return given_up = given_up || (stop && stop()); }
  Verdict ask(std::size_t rule, const Point& point, std::uint64_t known, int* wants = nullptr);

  const Space space;
  const Problem problem;
  const Device device;
  const std::vector<Knob>& knobs; // of `space`
  std::vector<Component> components;
  bool refused = false;  // by a rule that reads no knob
  bool given_up = false; // somebody had no time for counting

  // Kept for BoundSpace.
  std::unordered_set<Point, PointHash> listed;      // of only()
  std::optional<std::vector<Point>> all;            // members, once they were listed
  std::size_t too_many = 0;                         // more members than this: known from trying
  std::optional<std::pair<double, bool>> size;      // and whether it is exact
  std::unordered_map<Point, bool, PointHash> legal; // what the compiler said

private:
  struct Builder;
  void learn();
  void count(const Stop& stop); // with `budget_`
  void split();
  std::vector<std::uint16_t> order(std::uint64_t component) const;
  bool descend(const Component& c, Point& point, Random& random, long double& weight);
  bool search(const Component& c, Point& point, Random& random);
  bool assign(std::uint16_t knob, const std::vector<Open>& before, std::vector<Open>& after,
              const Point& point, std::uint64_t known);
  bool draw_into(const Component& c, Point& point, Random& random);
  // Of a knob: those that no open rule refuses, as they were found for alike branches before.
  const std::vector<std::uint16_t>& allowed(std::uint16_t knob, const std::vector<Open>& open, Point& point,
                                            std::uint64_t known);

  std::vector<std::uint64_t> reads_;               // of each rule, as observed
  std::vector<std::vector<std::uint16_t>> orders_; // of each rule: see Choice
  Point unknown_;                                  // what knobs without a value show to rules
  std::size_t budget_ = 0, asked_ = 0;
  bool grew_ = false; // a read set, since it was last cleared
  std::unordered_map<std::string, std::vector<std::uint16_t>> allowed_; // by knob, and see key_of
  std::size_t allowed_count_ = 0;                                       // of all their values
};

} // namespace kiln::tune
