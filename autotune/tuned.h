// A kernel whose config comes from the tuner's database: one line makes any kernel tunable.
//
//   const auto gemm = tuned(matmul, space);                    // matmul: a kiln::Kernel; space: see space.h
//   gemm.launch(stream, a, b, c);                              // with the best config that is known
//   auto report = gemm.tune(stream, {.effort = tune::quick}, a, b, c); // searches one, and remembers it
//
// What is known comes from wisdom files that ship with the application, then from the database in the cache
// folder, then from the analytic model, which measures nothing. A problem is what its sizes are, by default
// the extents of all views, or of a kernel without views its integers; name them to give rules and reports
// better words and to bucket them:
//
//   tuned(matmul, space, {.key = {{"M", 2, 0}, {"N", 2, 1}, {"K", 0, 1}},      // parameter, axis
//                         .buckets = tune::Bucketing::hybrid()});
//
// A kernel of raw pointers that computes its own offsets is told about the same way:
//
//   tuned(copy, space, {.key = {{"n", 2}},
//                       .grid = [](const Config& c, const tune::Problem& p) -> Grid {
//                         return {p["n"] / *c.get("BN") + 1};
//                       },
//                       .pointer_bytes = [](const tune::Problem& p) -> std::vector<std::int64_t> {
//                         return {4 * p["n"], 4 * p["n"]};
//                       }});
//
// The mode (mode.h) is KILN_TUNE's, as it is at the first use, unless the options give one. The choice for a
// problem is made once and then found in a table, in well under a microsecond. All functions are thread-safe
// and const.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/records/bucket.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/autotune/space/space.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// One size of a problem: the extent of a view along an axis, or the value of an integer scalar.
struct Size {
  const char* name;
  int parameter;
  int axis = 0;
};

struct TunedOptions {
  std::vector<Size> key = {};             // empty: the extents of all views, else all integers
  Bucketing buckets = Bucketing::exact(); // which sizes share a config; default: none do
  std::optional<Mode> mode = {};          // default: default_mode() at the first use
  TuneOptions search = {};                // of the modes that search
  // Of a kernel without program_tile, so that each config is launched with its own; else the launch's is used
  // for all of them.
  std::function<Grid(const Config&, const Problem&)> grid = {};
  // Of a kernel with raw pointers, to be searched: how many bytes are behind each, in their order.
  std::function<std::vector<std::int64_t>(const Problem&)> pointer_bytes = {};
};

// Configs that ship with an application: the best ones of this machine's database, of one kernel or of all,
// those included that no search had the time to confirm, written to a file; and such a file, from now on
// looked at before the database. Both return how many configs it has, and throw UserError for a file that
// cannot be written, or read.
std::size_t export_wisdom(const std::string& path, const std::string& kernel = {});
std::size_t add_wisdom(const std::string& path);

namespace detail {

class TunedCore {
public:
  TunedCore(kiln::detail::KernelHandle kernel, Space space, TunedOptions options, SourceLocation where);
  ~TunedCore();
  TunedCore(const TunedCore&) = delete;

  // The words are those of a launch.
  void launch(Stream& stream, kiln::detail::Location site, const Grid* grid, std::uint64_t* words) const;
  Picked pick(std::uint64_t* words, Device device, const Grid* grid, SourceLocation site) const;
  Tuning tune(std::uint64_t* words, Device device, const Grid* grid, const TuneOptions& options,
              SourceLocation site) const;
  const kiln::detail::KernelHandle& kernel() const { return kernel_; }

private:
  struct State;
  struct Chosen;
  Chosen choose(std::uint64_t* words, std::uint64_t layouts, Device device, const Grid* grid) const;
  Chosen search_for(Stream& stream, std::uint64_t* words, std::uint64_t layouts, const Grid* grid) const;
  kiln::detail::KernelHandle kernel_;
  std::shared_ptr<State> state_; // which a search in the background keeps
};

} // namespace detail
} // namespace kiln::tune

namespace kiln {

template <class... P> class TunedKernel {
public:
  TunedKernel(const Kernel<P...>& kernel, tune::Space space, tune::TunedOptions options, SourceLocation where)
      : core_(std::make_shared<const tune::detail::TunedCore>(kernel.handle(), std::move(space),
                                                              std::move(options), where)) {}

  // Queues the kernel with the config for these arguments.
  template <class... A> void launch(detail::StreamAt at, A&&... arguments) const {
    with_words(
        at.site, [&](std::uint64_t* words) { core_->launch(at.stream, at.site, nullptr, words); },
        arguments...);
  }
  template <class... A> void launch(detail::StreamAt at, Grid grid, A&&... arguments) const {
    with_words(
        at.site, [&](std::uint64_t* words) { core_->launch(at.stream, at.site, &grid, words); },
        arguments...);
  }
  // What launch would use; measures nothing, in mode `tune` either.
  template <class... A> tune::Picked pick(detail::StreamAt at, A&&... arguments) const {
    tune::Picked picked;
    with_words(
        at.site,
        [&](std::uint64_t* words) {
          picked = core_->pick(words, at.stream.device(), nullptr, SourceLocation(at.site));
        },
        arguments...);
    return picked;
  }
  // Searches the space for these arguments' problem with processes of their own, and uses what it finds from
  // now on. The arguments' memory is not touched. Takes as long as the options allow.
  template <class... A>
  tune::Tuning tune(detail::StreamAt at, const tune::TuneOptions& options, A&&... arguments) const {
    std::optional<tune::Tuning> tuning;
    with_words(
        at.site,
        [&](std::uint64_t* words) {
          tuning.emplace(core_->tune(words, at.stream.device(), nullptr, options, SourceLocation(at.site)));
        },
        arguments...);
    return std::move(*tuning);
  }

private:
  template <class F, class... A> void with_words(detail::Location site, F&& use, A&&... arguments) const {
    static_assert(sizeof...(A) == sizeof...(P), "the arguments are not as many as the kernel's parameters");
    if constexpr (sizeof...(A) == sizeof...(P))
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*core_->kernel(), site, arguments...);
        use(packed.words());
      }
  }

  std::shared_ptr<const tune::detail::TunedCore> core_;
};

// UserError if the space has no seed.
template <class... P>
TunedKernel<P...> tuned(const Kernel<P...>& kernel, tune::Space space, tune::TunedOptions options = {},
                        std::source_location here = std::source_location::current()) {
  return {kernel, std::move(space), std::move(options), SourceLocation(here)};
}

} // namespace kiln
