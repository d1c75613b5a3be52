// Describes a tuning task: one problem of one kernel on one device, independent of the kernel's C++ types.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/measure/shared_bytes.h>
#include <kiln/autotune/output_check.h>
#include <kiln/autotune/records/key.h>
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
  std::string kernel; // the name of the kernel
  std::function<std::shared_ptr<ir::Kernel>(const Config&)> record;
  Space space;
  Problem problem;
  Problem bucketed;      // the problem under which records are stored; empty: `problem`
  std::string bucketing; // a description of the policy that made `bucketed`
  Device device;
  std::vector<LayoutClass> layouts; // one per view
  std::vector<std::uint64_t> words; // the packed arguments (dsl/ir/arguments.h)
  bool has_addresses = false;       // those in `words` are real, and show which arguments share memory
  std::vector<std::string> parameter_names; // of a registered kernel
  GivenContents contents;                   // before a launch; empty: all are made up
  std::function<Grid(const Config&)> grid;  // for a kernel that does not define its grid
  std::vector<std::int64_t> pointer_bytes;  // bytes of memory behind each raw pointer, in order
  // Makes the same task for another problem, if possible, so that measurements of that problem can be used.
  std::function<Task(const Problem&)> for_problem;
  std::vector<OutputCheck> outputs; // how they are compared, if not by default
  std::vector<int> as_given;        // parameters that the checks of a winner must not vary
  std::function<std::shared_ptr<ir::Kernel>()> reference; // records a kernel that outputs are compared with
  Config reference_config;
  Reference::Function reference_function; // computes what outputs are compared with; empty: there is none
  bool deterministic = false;             // search only configs that add in the same order as the first seed
  std::optional<cache::Key> ir;  // the hash of canonical(), if it is known; its name is then `kernel`
  std::vector<Config> try_first; // configs that are probably good, in the order in which they are tried

  // Records the kernel for `config`. Throws UserError, also in place of any other exception that the kernel's
  // code throws while it is recorded. That code runs in this process, unlike candidates, so if it does not
  // return, neither does this function.
  std::shared_ptr<ir::Kernel> recorded(const Config& config) const;
  // Returns the key of records about `problem`, or about the problem under which records are stored.
  RecordKey key_of(Problem problem) const;
  RecordKey key() const { return key_of(recorded_problem()); }
  // Returns the problem under which records are stored. A deterministic task, which searches fewer configs,
  // has one of its own.
  Problem recorded_problem() const;
  std::optional<Grid> grid_for(const Config& config) const {
    return grid ? std::optional(grid(config)) : std::nullopt;
  }
  BoundSpace bound_space() const;
  // Returns the kernel recorded without a config, or with the first seed if it reads sizes during recording.
  std::shared_ptr<const ir::Kernel> canonical() const;
};

bool is_empty(const Problem& problem); // true if any size is 0

// A suffix of the kind of a recorded problem. It means that only configs with one order of additions were
// searched.
inline constexpr std::string_view one_order_suffix = ".one-order";

// Returns the part of a config that the kernel takes: its dimensions and options. All other knobs are for the
// caller.
Config own_part(const Config& config, const std::vector<const char*>& dimensions);

// Returns all points if the space has at most `most`; otherwise the seeds and `most` random points, which are
// the same in each call. Returns fewer if `stop` returns true meanwhile.
std::vector<Point> some_points(BoundSpace& space, std::size_t most = 4096, const Stop& stop = {});

// The analytic model of one task, with a cache of its results. Not thread-safe.
class Prior {
public:
  Prior(const Task& task, const BoundSpace& space, const Machine& machine);

  // Returns the predicted seconds, or infinity if the compiler rejects the config.
  double operator()(const Point& point);
  // Returns the terms of the config, or null if the compiler rejects it.
  const Terms* terms(const Point& point);
  const std::string& refusal(const Point& point); // why the compiler rejects it; empty if it does not
  Estimate estimate(const Point& point);
  // Returns a lower bound of the seconds of all configs. Tiles differ in padding, so this is the least of the
  // bounds of the first legal seed and of all points seen so far. Returns 0 if no seed is legal.
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
  bool reads_sizes_ = false; // the kernel reads sizes, so each config must be recorded
  std::unordered_map<Point, Known, PointHash> known_;
};

} // namespace kiln::tune
