// Looks up the config for a launch of an op among those that the tuner found or that came with the program.
#pragma once

#include <kiln/ops/detail/op_kernel.h>
#include <kiln/ops/detail/row_config.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

namespace kiln::tune {
struct Task;
}

namespace kiln::ops::detail {

// The grid of a kernel without one of its own, as a function of the config.
struct GridRule {
  Grid (*of)(const std::int64_t* facts, const Config& config) = nullptr;
  std::array<std::int64_t, 3> facts = {};

  explicit operator bool() const { return of; }
  Grid grid(const Config& config) const { return of(facts.data(), config); }
};

// How two right configs may differ in an output that is finer than what is added up: |v - r| is at most
// absolute + relative |r|. For tensors of random numbers of magnitude 1, as the tuner makes them up.
struct OutputTolerance {
  int parameter = -1; // none
  double relative = 0, absolute = 0;
};

// A launch for which the tuner may know a config.
struct TunableLaunch {
  const OpKernel& kernel;
  const OpVariant& variant;
  const OpArguments& arguments;
  const OpKernel* looped = nullptr; // of a kernel on rows: is launched unless the config is `whole`
  GridRule grid = {};
  OutputTolerance tolerance = {};
  // Only a config that adds in the order of the space's first seed may be used (Space::keeps_order).
  bool one_order = false;
};

// The config for a launch, from a search in the space of the kernel that is registered as `tunable` (one of
// `kiln tune --list`). The sizes are in the order of its problem. The launch may have options, dtypes or
// lambdas that the registered kernel has not: configs are kept by tile IR. As long as there is none for it,
// it gets the config that another variant of the kernel has for the same sizes and dtype. Empty if no config
// is known.
//
// The mode (KILN_TUNE, see autotune/mode.h) decides where it looks. With `off` and `analytic` it does not
// look. With `pinned` it looks in wisdom files only, and a missing config is a UserError with the line of the
// call, unless the launch wants one order: then the config changes nothing but the speed. With `tune` it
// searches for a missing config at once, which takes as long as `kiln tune` does; with `online` it searches
// in the background. Both start from the config of the other variant, and measure with the contents that the
// launch's integers have. Thread-safe. A look-up that was made before takes well under a microsecond.
std::optional<Config> known_config(const char* tunable, const StreamAt& at,
                                   std::initializer_list<std::int64_t> sizes, const TunableLaunch& launch);

// The same for a kernel that reads the rows of x. If no config is known, it returns the one of row_config.
// With `batch_invariant`, the config does not depend on the number of rows, so that it is that of row_config.
RowConfig known_row_config(const char* tunable, const StreamAt& at, const Array& x, bool batch_invariant,
                           const TunableLaunch& launch);

// Gets the tasks of all look-ups on this thread while it lives. They then find nothing.
class LookupRecorder {
public:
  using Keep = std::function<void(tune::Task task, Stream& stream)>;

  explicit LookupRecorder(Keep to) : keep(std::move(to)), outer_(std::exchange(current, this)) {}
  ~LookupRecorder() { current = outer_; }
  LookupRecorder(const LookupRecorder&) = delete;

  const Keep keep;
  static constinit thread_local LookupRecorder* current;

private:
  LookupRecorder* outer_;
};

} // namespace kiln::ops::detail
