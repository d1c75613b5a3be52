// Chooses the config of each launch, once per problem, and starts the searches of the modes that search.
#include <kiln/autotune/tuned.h>

#include <kiln/autotune/per_process.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/check_task.h>
#include <kiln/autotune/run/resize.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/task_contents.h>
#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/kernel/kernel_core.h>
#include <kiln/jit/runtime/rehearsing.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace kiln::tune::detail {

namespace {

// The sizes, layout classes, device and key of a launch; a choice is made for each combination.
using LaunchKey = std::vector<std::uint64_t>;
struct LaunchKeyHash {
  std::size_t operator()(const LaunchKey& key) const {
    std::uint64_t h = key.size();
    for (std::uint64_t word : key)
      h = (h ^ word) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return h;
  }
};

// The number of choices that are kept. Beyond it the table is cleared to bound its memory.
constexpr std::size_t most_choices = 1 << 14;

// The trials that a search may spend at most on confirming a config found with other tool versions.
constexpr int stale_trials = 8;

// Only one search runs at a time, since two would disturb each other's measurements. The mutex is recursive
// because the progress callback of a search may launch kernels.
std::recursive_mutex& searching() {
  static auto& mutex = *new OfProcess<std::recursive_mutex>;
  return mutex.get();
}

// There is nothing to measure in a rehearsal, and contents cannot be copied while a graph is captured.
bool measures_nothing(Stream& stream) {
  return kiln::detail::Rehearsing::current() || cuda::is_capturing(stream);
}

std::string dtypes_of(const ir::Kernel& kernel) {
  std::string text;
  for (const auto& arg : kernel.body.args)
    text += (text.empty() ? "" : ".") + std::string(kiln::name(arg->type.dtype));
  return text;
}

} // namespace

struct TunedCore::Chosen {
  Picked picked;
  Config launch;             // the part of its config that the kernel takes
  std::optional<Grid> grid;  // set if neither the kernel nor the launch has one
  bool searched = false;     // this process searched, whether or not it found a config
  bool left_out = false;     // no background search was queued, because too many were waiting
  std::uint64_t changes = 0; // the database's count of changes at the time of the choice
};

struct TunedCore::State {
  State(kiln::detail::KernelHandle k, Space s, TunedOptions o, SourceLocation w)
      : kernel(std::move(k)), space(std::move(s)), options(std::move(o)), where(w) {
    if (space.seeds().empty())
      throw UserError(where, std::string("tuned(") + kernel->name +
                                 "): the space has no seed; give it a config that works "
                                 "everywhere: space.seed({{\"BM\", 64}})");
    describe();
  }

  std::shared_ptr<ir::Kernel> record(const Config& config) const {
    return kiln::detail::record(*kernel, config);
  }

  // The mode is determined at the first use: kernels are created before main, where an error in KILN_TUNE
  // could not be reported, and a program may set the variable in main.
  Mode mode() {
    int known = chosen_mode.load(std::memory_order_relaxed);
    if (known < 0) {
      known = static_cast<int>(options.mode ? *options.mode : default_mode());
      chosen_mode.store(known, std::memory_order_relaxed);
    }
    return static_cast<Mode>(known);
  }

  // Finds which words of a launch are the problem's sizes.
  void describe() {
    Task task;
    task.space = space;
    task.record = [this](const Config& config) { return record(config); };
    const auto recorded = task.canonical();
    const auto layout = ir::ArgumentLayout::of(*recorded);
    const auto& args = recorded->body.args;
    dtypes = dtypes_of(*recorded);
    dimensions = recorded->dimensions();
    reads_sizes = recorded->config_specific;
    if (options.key.empty()) return describe_by_default(args, layout);
    for (const Size& size : options.key) {
      const auto p = static_cast<std::size_t>(size.parameter);
      const bool there = size.parameter >= 0 && p < args.size();
      const bool view = there && args[p]->type.is_view();
      const bool scalar = there && is_integer_scalar(args[p]->type);
      if (view ? size.axis < 0 || size.axis >= args[p]->type.view_rank : !scalar)
        throw UserError(
            where,
            std::string("tuned(") + kernel->name + "): size \"" + size.name + "\" is axis " +
                std::to_string(size.axis) + " of parameter " + std::to_string(size.parameter) +
                ", which is neither an axis of a view nor an integer; parameters and axes count from 0");
      add_size(size.name, view ? layout.extent_word(size.parameter, size.axis) : layout.first_word[p]);
    }
  }
  // Uses the extents of all views or, for a kernel without views, its integers.
  void describe_by_default(const std::vector<std::unique_ptr<ir::Value>>& args,
                           const ir::ArgumentLayout& layout) {
    for (std::size_t p = 0; p < args.size(); ++p)
      for (int axis = 0; args[p]->type.is_view() && axis < args[p]->type.view_rank; ++axis)
        add_size("arg" + std::to_string(p) + "." + std::to_string(axis),
                 layout.extent_word(static_cast<int>(p), axis));
    if (!names.empty()) return;
    for (std::size_t p = 0; p < args.size(); ++p)
      if (is_integer_scalar(args[p]->type)) add_size("arg" + std::to_string(p), layout.first_word[p]);
  }
  static bool is_integer_scalar(const ir::Type& type) {
    return type.is_scalar() && is_integer(type.dtype) && !type.pointer;
  }
  void add_size(std::string name, int word) {
    names.push_back(std::move(name));
    size_words.push_back(word);
  }

  LaunchKey key_of(const std::uint64_t* words, std::uint64_t layouts, Device device,
                   const std::string& name) const {
    LaunchKey key;
    key.reserve(size_words.size() + 3);
    for (int word : size_words)
      key.push_back(words[word]);
    key.push_back(layouts);
    key.push_back(std::hash<Device>{}(device));
    key.push_back(name.empty() ? 0 : std::hash<std::string>{}(name));
    return key;
  }

  Task task_of(const std::uint64_t* words, std::uint64_t layouts, Device device, const Grid* grid,
               const std::string& key) {
    Task task;
    task.kernel = kernel->name;
    task.record = [handle = kernel](const Config& config) { return kiln::detail::record(*handle, config); };
    task.space = space;
    task.device = device;
    task.layouts = kernel->layouts_of(layouts);
    task.words.assign(words, words + kernel->words);
    task.has_addresses = true;
    for (std::size_t i = 0; i < names.size(); ++i)
      task.problem.sizes.emplace_back(names[i], static_cast<std::int64_t>(words[size_words[i]]));
    task.problem.kind = dtypes;
    task.problem.key = key;
    for (LayoutClass layout : task.layouts)
      task.problem.kind += std::string(".") + cli::layout_text(layout);
    const auto complete = [of = options.grid, bytes = options.pointer_bytes](Task& t) {
      if (of) t.grid = [of, problem = t.problem](const Config& config) { return of(config, problem); };
      if (bytes) t.pointer_bytes = bytes(t.problem);
    };
    complete(task);
    if (grid) task.grid = [grid = *grid](const Config&) { return grid; };
    task.bucketed = options.buckets.apply(task.problem);
    task.bucketing = options.buckets.text();
    task.outputs = options.outputs;
    task.as_given = options.as_given;
    if (const auto& reference = options.reference.kernel()) {
      task.reference = [handle = *reference, config = options.reference.config()] {
        return kiln::detail::record(*handle, config);
      };
      task.reference_config = options.reference.config();
    }
    task.reference_function = options.reference.function();
    task.deterministic = mode() == Mode::deterministic || options.search.deterministic;
    task.for_problem = [task, at = size_words, complete](const Problem& other) {
      Task resized = task;
      resized.words = resized_words(*task.canonical(), task.words, at, task.problem, other);
      resized.problem = other;
      resized.bucketed = {};
      complete(resized);
      resized.has_addresses = false;
      resized.contents.clear();
      return resized;
    };
    return task;
  }

  // The options of a search that a launch starts after it found `picked`.
  TuneOptions search_options(const Picked& picked) const {
    TuneOptions search = options.search;
    if (picked.stale)
      search.trials = search.trials > 0 ? std::min(search.trials, stale_trials) : stale_trials;
    return search;
  }

  // A kernel that reads sizes during recording may read any knob.
  Config launch_config(const Config& config) const {
    return reads_sizes ? config : own_part(config, dimensions);
  }

  Chosen chosen_of(const Task& task, const Picked& picked) const {
    Chosen chosen{picked, launch_config(picked.config), {}};
    if (options.grid) chosen.grid = task.grid_for(picked.config);
    return chosen;
  }

  // Replaces the choice for `key`.
  Chosen keep_searched(const LaunchKey& key, const Task& task, const Picked& picked) {
    Chosen chosen = chosen_of(task, picked);
    chosen.searched = true;
    const std::unique_lock lock(mutex);
    make_room();
    choices.insert_or_assign(key, chosen);
    return chosen;
  }
  // Adds the choice unless a search has added one since.
  Chosen keep_first(const LaunchKey& key, const Task& task, const Picked& picked, bool left_out,
                    std::uint64_t changes) {
    Chosen chosen = chosen_of(task, picked);
    chosen.left_out = left_out;
    chosen.changes = changes;
    const std::unique_lock lock(mutex);
    make_room();
    Chosen& kept = choices.try_emplace(key, chosen).first->second;
    if (!kept.searched) kept = std::move(chosen);
    return kept;
  }
  // In mode online, a search for another problem of its bucket may have found a config since, and a problem
  // that was left out may be searched once there is room.
  bool may_improve(const Chosen& chosen) {
    if (mode() != Mode::online || chosen.searched || (chosen.picked.known && !chosen.picked.stale))
      return false;
    return chosen.changes != Database::standard().changes() || (chosen.left_out && background_has_room());
  }
  void make_room() {
    if (choices.size() >= most_choices) choices.clear();
  }
  std::optional<Chosen> find(const LaunchKey& key) {
    const std::shared_lock lock(mutex);
    auto at = choices.find(key);
    return at == choices.end() ? std::nullopt : std::optional(at->second);
  }

  const kiln::detail::KernelHandle kernel;
  const Space space;
  const TunedOptions options;
  const SourceLocation where;
  std::atomic<int> chosen_mode{-1}; // a Mode, or -1 before the first use
  std::vector<std::string> names;   // names of the sizes
  std::vector<int> size_words;      // their indices in a launch's words
  std::string dtypes;               // "f32.f32.f32"
  std::vector<const char*> dimensions;
  bool reads_sizes = false; // the kernel reads sizes during recording
  std::shared_mutex mutex;  // guards choices
  std::unordered_map<LaunchKey, Chosen, LaunchKeyHash> choices;
};

TunedCore::TunedCore(kiln::detail::KernelHandle kernel, Space space, TunedOptions options,
                     SourceLocation where)
    : kernel_(kernel), key_(options.search.key) {
  check_key(key_);
  state_ = std::make_shared<State>(std::move(kernel), std::move(space), std::move(options), where);
}
TunedCore::TunedCore(const TunedCore& other, std::string key)
    : kernel_(other.kernel_), state_(other.state_), key_(std::move(key)) {
  check_key(key_);
}
TunedCore::~TunedCore() = default;

TunedCore::Chosen TunedCore::choose(std::uint64_t* words, std::uint64_t layouts, Stream& stream,
                                    const Grid* grid) const {
  State& state = *state_;
  const Device device = stream.device();
  const LaunchKey key = state.key_of(words, layouts, device, key_);
  if (auto chosen = state.find(key); chosen && !state.may_improve(*chosen)) return *std::move(chosen);
  const Task task = state.task_of(words, layouts, device, grid, key_);
  const std::uint64_t changes = Database::standard().changes();
  const bool searches = state.mode() == Mode::tune || state.mode() == Mode::online;
  const Picked picked = tune::pick(task, searches ? Mode::cached : state.mode());
  const bool rehearsing = measures_nothing(stream);
  bool left_out = rehearsing;
  if (!rehearsing && state.mode() == Mode::online && (!picked.known || picked.stale) &&
      !is_empty(task.problem))
    left_out = !search_in_background(
        task, picked.config, state.search_options(picked),
        [state = state_, key, task, layouts, device](const Config& config) {
          // Compiled here, so that no launch has to compile; the policy may forbid it to.
          state->kernel->variant({state->launch_config(config), layouts, device});
          state->keep_searched(key, task, {config, "tuned", true, false});
        },
        &stream);
  return state.keep_first(key, task, picked, left_out, changes);
}

Picked TunedCore::pick(std::uint64_t* words, Stream& stream, const Grid* grid, SourceLocation site) const {
  const std::uint64_t layouts = kernel_->check_arguments(words, site);
  return choose(words, layouts, stream, grid).picked;
}

// The search in mode tune, for a launch that found no config, or only a stale one. Threads that need the same
// config wait for one search. If the search fails, the previous choice is kept as the result, so that later
// launches do not search again.
TunedCore::Chosen TunedCore::search_for(Stream& stream, std::uint64_t* words, std::uint64_t layouts,
                                        const Grid* grid) const {
  State& state = *state_;
  const LaunchKey key = state.key_of(words, layouts, stream.device(), key_);
  Task task = state.task_of(words, layouts, stream.device(), grid, key_);
  const std::lock_guard lock(searching());
  if (const auto chosen = state.find(key); chosen && chosen->searched) return *chosen;
  Picked picked = tune::pick(task, Mode::cached); // another kernel or process may have searched meanwhile
  if ((picked.known && !picked.stale) || is_empty(task.problem))
    return state.keep_searched(key, task, picked);
  try {
    const TuneOptions options = state.search_options(picked);
    take_contents(task, stream, options);
    picked = {tune::tune(task, options).config(), "tuned", true, false};
  } catch (const std::exception& e) {
    log_warning_once(std::string("tuning at a launch: ") + e.what() + "; continuing as in mode cached");
  }
  return state.keep_searched(key, task, picked);
}

void TunedCore::launch(Stream& stream, kiln::detail::Location at, const Grid* grid,
                       std::uint64_t* words) const {
  const std::uint64_t layouts = kernel_->check_arguments(words, SourceLocation(at));
  Chosen chosen = choose(words, layouts, stream, grid);
  if (state_->mode() == Mode::tune && !chosen.searched && (!chosen.picked.known || chosen.picked.stale) &&
      !measures_nothing(stream))
    chosen = search_for(stream, words, layouts, grid);
  if (!grid && chosen.grid) grid = &*chosen.grid;
  kiln::detail::launch(*kernel_, stream, at, chosen.launch, grid, words);
}

Tuning TunedCore::tune(std::uint64_t* words, Stream& stream, const Grid* grid, const TuneOptions& options,
                       SourceLocation site) const {
  if (kiln::detail::Rehearsing::current())
    throw UserError(site,
                    "tune() measures launches, and a rehearsal runs none; call it outside of rehearse()");
  const std::uint64_t layouts = kernel_->check_arguments(words, site);
  const std::string& name = options.key.empty() ? key_ : options.key;
  Task task = state_->task_of(words, layouts, stream.device(), grid, name);
  const std::lock_guard lock(searching());
  // An empty problem, and one that the policy forbids to compile, fails before anything is copied.
  check_tunable(task);
  take_contents(task, stream, options);
  Tuning tuning = tune::tune(task, options);
  if (tuning.found())
    state_->keep_searched(state_->key_of(words, layouts, stream.device(), name), task,
                          {tuning.config(), "tuned", true, false});
  return tuning;
}

} // namespace kiln::tune::detail
