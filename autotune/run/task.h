// One problem of one kernel on one device: all that tuning needs, whatever C++ types the kernel has.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/space/space.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

struct Task {
  std::string kernel; // its name
  std::function<std::shared_ptr<ir::Kernel>(const Config&)> record;
  Space space;
  Problem problem;
  Problem bucketed;      // as records are kept; empty: as it is
  std::string bucketing; // the policy that made it, in words
  Device device;
  std::vector<LayoutClass> layouts; // of each view
  std::vector<std::uint64_t> words; // of the arguments (dsl/ir/arguments.h)
  bool live = false;                // their addresses are real, so that integers may be copied from there
  std::function<Grid(const Config&)> grid; // where the kernel defines none
  std::vector<std::int64_t> pointer_bytes; // behind each raw pointer, in order
  // The same for another problem, if that can be made: what was measured there teaches.
  std::function<Task(const Problem&)> for_problem;
  bool deterministic = false; // only configs that add up in the seed's order

  // The kernel as its code records it for `config`. UserError too for whatever else that code throws. It runs
  // here, not in a process of its own as candidates do: where it does not return, nor does this.
  std::shared_ptr<ir::Kernel> recorded(const Config& config) const;
  // As records are kept: what was found among fewer configs is kept apart.
  Problem recorded_problem() const;
  std::optional<Grid> grid_for(const Config& config) const {
    return grid ? std::optional(grid(config)) : std::nullopt;
  }
  BoundSpace bound_space() const;
  std::shared_ptr<const ir::Kernel> canonical() const; // recorded without a config, or with the first seed
};

bool is_empty(const Problem& problem); // a size is 0

// What the kind of a recorded problem ends with where only configs of one order of additions were looked at.
inline constexpr std::string_view one_order_suffix = ".one-order";

// What of a config is a kernel's: its dimensions, and options. Other knobs are the caller's own.
Config own_part(const Config& config, const std::vector<const char*>& dimensions);

// All points of a space that has at most so many; else so many drawn at random, the same each time, and the
// seeds. Fewer where `stop` says so, while they are counted or before a draw.
std::vector<Point> some_points(BoundSpace& space, std::size_t most = 4096, const Stop& stop = {});

// The analytic model of one task, which keeps what it counted. Thread-compatible.
class Prior {
public:
  Prior(const Task& task, const BoundSpace& space, const Machine& machine);

  // Seconds; infinite for what the compiler refuses.
  double operator()(const Point& point);
  // Null for what the compiler refuses.
  const Terms* terms(const Point& point);
  const std::string& refusal(const Point& point); // empty: it is legal
  Estimate estimate(const Point& point);
  // Seconds that no config beats: the least of the first legal seed and all that were looked at, since what
  // pads their tiles differs. 0 if no seed is legal.
  double bound();
  // The `count` that it expects to be fastest of some points, best first; of those that it looked at until
  // `stop` said so.
  std::vector<Point> best(std::span<const Point> points, std::size_t count, const Stop& stop = {});

private:
  struct Known {
    std::optional<Terms> terms;
    std::string refusal;
  };
  const Known& look_at(const Point& point);

  const Task& task_;
  const BoundSpace& space_;
  Machine machine_;
  KernelCase case_;
  bool reads_sizes_ = false; // while recording, so that each config is recorded anew
  std::unordered_map<Point, Known, PointHash> known_;
};

} // namespace kiln::tune
