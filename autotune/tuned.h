// Defines tuned(), which wraps a kernel so that its launches use the best known config.
//
//   const auto gemm = tuned(matmul, space);                    // matmul: a kiln::Kernel; space: see space.h
//   gemm.launch(stream, a, b, c);                              // with the best known config
//   auto report = gemm.tune(stream, {.effort = tune::quick}, a, b, c); // searches a config and records it
//
// A launch takes its config from the first of these that has one: the wisdom files that ship with the
// application; the database in the cache folder, for this problem or a close one; the analytic model, which
// chooses a seed unless it predicts another config to be 1.5 times as fast. A problem is identified by its
// sizes: by default the extents of all views or, for a kernel without views, its integer parameters. Name the
// sizes to make rules and reports readable, and to bucket them:
//
//   tuned(matmul, space, {.key = {{"M", 2, 0}, {"N", 2, 1}, {"K", 0, 1}},      // parameter, axis
//                         .buckets = tune::Bucketing::hybrid()});
//
// A kernel that takes raw pointers and computes its own offsets is described in the same way:
//
//   tuned(copy, space, {.key = {{"n", 2}},
//                       .grid = [](const Config& c, const tune::Problem& p) -> Grid {
//                         return {p["n"] / *c.get("BN") + 1};
//                       },
//                       .pointer_bytes = [](const tune::Problem& p) -> std::vector<std::int64_t> {
//                         return {4 * p["n"], 4 * p["n"]};
//                       }});
//
// The mode (mode.h) is that of the options, or else that of KILN_TUNE, which is read at the first use. The
// config for a problem is chosen once; later launches find it in a table, in well under a microsecond. All
// functions are const and thread-safe.
#pragma once

#include <kiln/autotune/mode.h>
#include <kiln/autotune/output_check.h>
#include <kiln/autotune/records/bucket.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/autotune/space/space.h>
#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

// One size of a problem: the extent of a view along an axis, or the value of an integer scalar.
struct Size {
  const char* name;
  int parameter;
  int axis = 0;
};

struct TunedOptions {
  std::vector<Size> key = {};             // empty: the extents of all views, else all integers
  Bucketing buckets = Bucketing::exact(); // the sizes that share a config; default: none do
  std::optional<Mode> mode = {};          // default: default_mode() at the first use
  TuneOptions search = {};                // for modes that search (online, tune)
  // For a kernel without program_tile: returns the grid for a config. Without this function, all configs use
  // the grid of the launch.
  std::function<Grid(const Config&, const Problem&)> grid = {};
  // For a kernel with raw pointers: returns the number of bytes behind each pointer, in parameter order. A
  // search needs it.
  std::function<std::vector<std::int64_t>(const Problem&)> pointer_bytes = {};
  std::vector<OutputCheck> outputs = {}; // tolerances of outputs; default: determined, see output_check.h
  Reference reference = {};              // computes the right outputs; default: the first seed does
  // Parameters, counted from 0, whose properties the kernel relies on: a sorted table, a symmetric matrix.
  // The winner is also checked with other contents, smaller shapes and other scalars than those given; these
  // parameters keep theirs.
  std::vector<int> as_given = {};
};

// export_wisdom writes the best configs of the database of this machine, for one kernel or for all, to a file
// that can ship with an application; it includes configs that a search had no time to confirm. add_wisdom
// reads such a file, which from then on takes precedence over the database. Both return the number of configs
// in the file, and throw UserError if it cannot be written or read.
std::size_t export_wisdom(const std::string& path, const std::string& kernel = {});
std::size_t add_wisdom(const std::string& path);

namespace detail {

class TunedCore {
public:
  TunedCore(kiln::detail::KernelHandle kernel, Space space, TunedOptions options, SourceLocation where);
  TunedCore(const TunedCore& with_other_key, std::string key);
  ~TunedCore();
  TunedCore(const TunedCore&) = delete;

  // `words` are the packed arguments of a launch (dsl/ir/arguments.h).
  void launch(Stream& stream, kiln::detail::Location site, const Grid* grid, std::uint64_t* words) const;
  Picked pick(std::uint64_t* words, Stream& stream, const Grid* grid, SourceLocation site) const;
  Tuning tune(std::uint64_t* words, Stream& stream, const Grid* grid, const TuneOptions& options,
              SourceLocation site) const;
  const kiln::detail::KernelHandle& kernel() const { return kernel_; }

private:
  struct KILN_INTERNAL State;
  struct KILN_INTERNAL Chosen;
  Chosen choose(std::uint64_t* words, std::uint64_t layouts, Stream& stream, const Grid* grid) const;
  Chosen search_for(Stream& stream, std::uint64_t* words, std::uint64_t layouts, const Grid* grid) const;
  kiln::detail::KernelHandle kernel_;
  std::shared_ptr<State> state_; // shared with searches in the background
  std::string key_;              // see TunedKernel::with_key
};

} // namespace detail
} // namespace kiln::tune

namespace kiln {

// A kernel whose launches use the best known config. A handle: copies share the chosen configs.
template <class... P> class TunedKernel {
public:
  TunedKernel(const Kernel<P...>& kernel, tune::Space space, tune::TunedOptions options, SourceLocation where)
      : core_(std::make_shared<const tune::detail::TunedCore>(kernel.handle(), std::move(space),
                                                              std::move(options), where)) {}

  // Queues the kernel with the config that was chosen for these arguments, and returns. Mode `tune` may
  // search first. Throws what Kernel::launch throws, and UserError in mode `pinned` if no wisdom file has a
  // config.
  template <class... A> void launch(detail::StreamAt at, A&&... arguments) const {
    with_words(
        at.site, [&](std::uint64_t* words) { core_->launch(at.stream, at.site, nullptr, words); },
        arguments...);
  }
  // Queues a kernel without program_tile on this grid, with the config that was chosen for these arguments,
  // and returns. In mode `tune`, the search measures all configs on this grid. Throws what the function above
  // throws.
  template <class... A> void launch(detail::StreamAt at, Grid grid, A&&... arguments) const {
    with_words(
        at.site, [&](std::uint64_t* words) { core_->launch(at.stream, at.site, &grid, words); },
        arguments...);
  }
  // Returns the config that launch would use, without measuring even in mode `tune`. Throws UserError as
  // launch does.
  template <class... A> tune::Picked pick(detail::StreamAt at, A&&... arguments) const {
    tune::Picked picked;
    with_words(
        at.site,
        [&](std::uint64_t* words) {
          picked = core_->pick(words, at.stream, nullptr, SourceLocation(at.site));
        },
        arguments...);
    return picked;
  }
  // Searches the space for the problem of these arguments, and uses the result from now on. It first waits
  // for the stream and copies the contents of the arguments that the kernel reads, up to
  // options.contents_bytes; all measurements and checks start from this copy. The search runs in other
  // processes, which never see the arguments themselves, so that it does not change them. It takes at most
  // the time that the options allow. If that is too short to verify a faster config, the result is the first
  // legal seed; if it is too short even for measuring that, the result has no winner. Throws UserError if a
  // size of the problem is 0, if the compile policy forbids compiling, if no seed is legal, or if the first
  // legal seed does not run or computes a wrong result.
  template <class... A>
  tune::Tuning tune(detail::StreamAt at, const tune::TuneOptions& options, A&&... arguments) const {
    std::optional<tune::Tuning> tuning;
    with_words(
        at.site,
        [&](std::uint64_t* words) {
          tuning.emplace(core_->tune(words, at.stream, nullptr, options, SourceLocation(at.site)));
        },
        arguments...);
    return std::move(*tuning);
  }

  // Returns a handle for problems of another kind of contents, such as sparse matrices with longer rows. The
  // key distinguishes them from problems of equal sizes: tune() stores its result under the key, which
  // `kiln records` shows, and launch() and pick() of this handle use results with the same key. If there is
  // none, they use that of a close problem, such as one of equal sizes with another key, as they do for other
  // sizes. The empty key is that of the original handle, unless TunedOptions::search.key set
  // another. Handles share everything else; keep them, because making one allocates memory. Throws UserError
  // for a key of more than 1000 bytes.
  //
  //   const auto sparse = tuned(csr_times_vector, space);
  //   const auto short_rows = sparse.with_key("rows of 0 to 7");
  //   short_rows.tune(stream, {}, rows, columns, values, x, y);
  //   short_rows.launch(stream, rows, columns, values, x, y);
  TunedKernel with_key(std::string key) const {
    TunedKernel other = *this;
    other.core_ = std::make_shared<const tune::detail::TunedCore>(*core_, std::move(key));
    return other;
  }

private:
  template <class F, class... A> void with_words(detail::Location site, F&& use, A&&... arguments) const {
    static_assert(sizeof...(A) == sizeof...(P),
                  "the number of arguments differs from the number of parameters");
    if constexpr (sizeof...(A) == sizeof...(P))
      if constexpr ((detail::HostArgument<P>::template accepts<A>() & ... & 1)) {
        detail::PackedArguments<P...> packed(*core_->kernel(), site, arguments...);
        use(packed.words());
      }
  }

  std::shared_ptr<const tune::detail::TunedCore> core_;
};

// Wraps `kernel`, to be launched with configs of `space`. Throws UserError if the space has no seed, if a
// size in the options is neither an axis of a view nor an integer, or if the key of the options has more than
// 1000 bytes.
template <class... P>
TunedKernel<P...> tuned(const Kernel<P...>& kernel, tune::Space space, tune::TunedOptions options = {},
                        std::source_location here = std::source_location::current()) {
  return {kernel, std::move(space), std::move(options), SourceLocation(here)};
}

} // namespace kiln
KILN_API_END
