// Describes a tuning task: one problem of one kernel on one device, independent of the kernel's C++ types.
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
  Problem bucketed;      // the problem under which records are kept; empty: `problem`
  std::string bucketing; // a description of the policy that made `bucketed`
  Device device;
  std::vector<LayoutClass> layouts; // one per view
  std::vector<std::uint64_t> words; // the packed arguments (dsl/ir/arguments.h)
  bool live = false; // the addresses in `words` are real, so integer data may be copied from there
  std::function<Grid(const Config&)> grid; // if the kernel defines none
  std::vector<std::int64_t> pointer_bytes; // size of the memory behind each raw pointer, in order
  // Makes the same task for another problem, if possible, so that measurements of that problem can be used.
  std::function<Task(const Problem&)> for_problem;
  bool deterministic = false; // only configs with the seed's order of additions

  // Records the kernel's code for `config`. Throws UserError, also in place of any other exception from that
  // code. The code runs in this process, unlike candidates: if it does not return, neither does this
  // function.
  std::shared_ptr<ir::Kernel> recorded(const Config& config) const;
  // Returns the problem under which records are kept; deterministic tasks, which search fewer configs, get a
  // separate one.
  Problem recorded_problem() const;
  std::optional<Grid> grid_for(const Config& config) const {
    return grid ? std::optional(grid(config)) : std::nullopt;
  }
  BoundSpace bound_space() const;
  std::shared_ptr<const ir::Kernel> canonical() const; // recorded with no config, else the first seed
};

bool is_empty(const Problem& problem); // whether any size is 0

// The suffix of a recorded problem's kind if only configs with one order of additions were searched.
inline constexpr std::string_view one_order_suffix = ".one-order";

// Returns the part of a config that is for the kernel: its dimensions and options. Other knobs are for the
// caller.
Config own_part(const Config& config, const std::vector<const char*>& dimensions);

// Returns all points if the space has at most `most`; else `most` random points, the same in each call, and
// the seeds. Returns fewer if `stop` returns true during counting or drawing.
std::vector<Point> some_points(BoundSpace& space, std::size_t most = 4096, const Stop& stop = {});

// The analytic model of one task, with a cache of its results. Thread-compatible.
class Prior {
public:
  Prior(const Task& task, const BoundSpace& space, const Machine& machine);

  // Predicted seconds; infinite if the compiler rejects the config.
  double operator()(const Point& point);
  // Null if the compiler rejects the config.
  const Terms* terms(const Point& point);
  const std::string& refusal(const Point& point); // empty if the config is legal
  Estimate estimate(const Point& point);
  // Returns a lower bound of the seconds of all configs: the least bound of the first legal seed and of all
  // points seen so far, since the padding of tiles differs between them. Returns 0 if no seed is legal.
  double bound();
  // Returns the `count` points that the model predicts to be fastest, best first, among those evaluated
  // before `stop` returns true.
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
  bool reads_sizes_ = false; // during recording, so that each config must be recorded
  std::unordered_map<Point, Known, PointHash> known_;
};

} // namespace kiln::tune
