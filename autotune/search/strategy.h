// How a search chooses what to measure next. A strategy proposes batches and is told what came of them; it
// never measures, so that it runs the same on a device and on a recorded table.
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

// A trial of another problem, device or kernel of the same family, in terms of this space's columns.
struct Sibling {
  std::vector<float> columns; // as SearchContext::columns gives them
  double log_seconds = 0;     // less that group's best, so that groups compare; infinite for a failure
  int group = 0;              // which other problem
};

struct SearchContext {
  BoundSpace& space;
  std::uint64_t seed = 0;
  // Seconds that an analytic model expects of a point; empty: there is no such model.
  std::function<double(const Point&)> prior;
  // Columns for learning beside the knobs (terms of the analytic model, sizes); the same names for a family.
  std::vector<std::string> column_names;
  std::function<void(const Point&, std::span<float>)> columns;
  std::vector<Sibling> siblings;
  std::vector<Point> favourites; // winners of neighbouring problems, best first
  // Of a space with too many points to ask the model about each, those to begin with; empty: all, or what a
  // strategy draws itself.
  std::vector<Point> candidates = {};
  std::size_t parallel = 1; // compilers that work side by side, and would wait for smaller batches
};

struct Proposal {
  Point point;
  std::string source;   // see Trial
  double predicted = 0; // seconds; 0: no opinion
};

class Strategy {
public:
  virtual ~Strategy() = default;
  virtual const char* name() const = 0;
  virtual std::size_t batch() const { return 8; }
  // At most `most` points that were not proposed before; fewer, or none, if the strategy is at its end.
  virtual std::vector<Proposal> propose(std::size_t most) = 0;
  // At most so many points to compile beside those that it just proposed, where that costs little, since what
  // the compiler tells may change which of all are run; none: it would make nothing of that.
  virtual std::vector<Proposal> spares(std::size_t) { return {}; }
  // Which of its proposals to run now that all are compiled: the places of at most `most`. What the compiler
  // failed on is none of them; others that are left out count as not proposed.
  virtual std::vector<std::size_t> choose(std::span<const Proposal> proposals,
                                          std::span<const Measurement> compiled, std::size_t most);
  // What came of its proposals; and, where it uses siblings, trials that others measured meanwhile.
  virtual void observe(std::span<const Trial> trials) = 0;
  // How likely any point not measured is more than 2 % faster than the best; 1 where that is not known.
  virtual double chance_of_better() { return 1; }
};

// "learned" (the default), "random", "grid", "annealing", "annealing1", "genetic", "autotvm", "helion",
// "helion8". UserError that lists them for another name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, SearchContext context);
std::vector<std::string> strategy_names();
bool uses_siblings(const std::string& name); // whether SearchContext::siblings make a difference to it

} // namespace kiln::tune
