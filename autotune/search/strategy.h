// Declares the interface of search strategies.
//
// A strategy proposes batches and receives their results; it does not measure, so it works in the same way on
// a device and on a recorded table.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/autotune/space/trial.h>

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kiln::tune {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// A trial of another problem, device or kernel of the same family, in this space's columns.
struct Sibling {
  std::vector<float> columns; // the same columns as SearchContext::columns computes
  double log_seconds = 0;     // relative to the group's best, to compare groups; infinite for failures
  int group = 0;              // identifies the other problem
};

struct SearchContext {
  BoundSpace& space;
  std::uint64_t seed = 0;
  // The seconds that the analytic model predicts for a point; empty if there is no model.
  std::function<double(const Point&)> prior;
  // Columns for learning besides the knobs (terms of the analytic model, sizes). A family shares their names.
  std::vector<std::string> column_names;
  std::function<void(const Point&, std::span<float>)> columns;
  std::vector<Sibling> siblings;
  std::vector<Point> favourites; // winners of neighbouring problems, best first
  // The initial candidates, for a space with too many points to evaluate the model for each; empty: all
  // points, or those that a strategy draws itself.
  std::vector<Point> candidates = {};
  std::size_t parallel = 1; // parallel compilers, which smaller batches would leave idle
};

struct Proposal {
  Point point;
  std::string source;   // see Trial
  double predicted = 0; // seconds; 0: no prediction
};

class Strategy {
public:
  virtual ~Strategy() = default;
  virtual const char* name() const = 0;
  virtual std::size_t batch() const { return 8; }
  // Proposes at most `most` points that were not proposed before; fewer or none if the strategy is exhausted.
  virtual std::vector<Proposal> propose(std::size_t most) = 0;
  // Proposes further points to compile besides those just proposed, at most as many as the argument says, if
  // that is cheap: the facts that the compiler reports may change which of all these points are run. Returns
  // none if the strategy would not use the facts.
  virtual std::vector<Proposal> spares(std::size_t) { return {}; }
  // Chooses which of its compiled proposals to run; returns at most `most` indices, without those that failed
  // to compile. Proposals that are not chosen count as not proposed.
  virtual std::vector<std::size_t> choose(std::span<const Proposal> proposals,
                                          std::span<const Measurement> compiled, std::size_t most);
  // Receives the results of its proposals and, if it uses siblings, trials that other searches measured
  // meanwhile.
  virtual void observe(std::span<const Trial> trials) = 0;
  // Returns the probability that some unmeasured point is more than 2 % faster than the best; 1 if unknown.
  virtual double chance_of_better() { return 1; }
};

// Names are "learned" (the default), "random", "grid", "annealing", "annealing1", "genetic", "autotvm",
// "helion" and "helion8". Throws UserError, which lists them, for any other name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, SearchContext context);
std::vector<std::string> strategy_names();
bool uses_siblings(const std::string& name); // whether SearchContext::siblings affect it

} // namespace kiln::tune
