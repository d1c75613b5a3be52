// Implements known_config, which looks up each problem in the tuner's database once and keeps the answer.
#include <kiln/ops/detail/known_config.h>

#include <kiln/autotune/mode.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/records/key.h>
#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task_contents.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/rehearsing.h>
#include <kiln/ops/detail/launch_task.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kiln::ops::detail {
namespace {

using tune::Mode;

// Identifies a problem: the kernel, its layouts, the device with its number of threads, and up to seven sizes.
using Key = std::array<std::uint64_t, 10>;
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = 0;
    for (std::uint64_t word : key)
      h = (h ^ word) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return h;
  }
};

// With more answers than this, all of them are dropped to limit the memory.
constexpr std::size_t most_answers = 1 << 14;

class Answers {
public:
  struct Answer {
    std::optional<Config> config;
    std::uint64_t changes = 0; // the database's count of changes at the time of the look-up
  };
  // The kept answer; empty if there is none or the database has changed since.
  std::optional<Answer> find(const Key& key) {
    const std::uint64_t changes = tune::Database::standard().changes();
    const std::shared_lock lock(mutex_);
    const auto found = answers_.find(key);
    if (found == answers_.end() || found->second.changes != changes) return std::nullopt;
    return found->second;
  }
  void keep(const Key& key, const std::optional<Config>& config) {
    const std::unique_lock lock(mutex_);
    if (answers_.size() >= most_answers) answers_.clear();
    answers_.insert_or_assign(key, Answer{config, tune::Database::standard().changes()});
  }
  std::mutex searching; // is locked while a launch searches

private:
  std::shared_mutex mutex_; // guards answers_
  std::unordered_map<Key, Answer, KeyHash> answers_;
};
Answers& known_answers() {
  static Answers& answers = *new Answers; // launches may come from destructors of static objects
  return answers;
}

bool searches(Mode mode) { return mode == Mode::online || mode == Mode::tune; }

// What is known of a launch.
struct Known {
  std::optional<Config> config;
  bool exact = false; // found for this kernel and this problem, with these versions of the tools
};

// The kinds of problems begin with a dtype and the layouts of the first two views.
std::string_view first_fields(std::string_view kind) {
  std::size_t end = 0;
  for (int i = 0; i < 3 && end != kind.npos; ++i)
    end = kind.find('.', end + (i > 0));
  return kind.substr(0, end);
}

// The config of another variant of the kernel, with other options or lambdas, for the same sizes.
std::optional<Config> of_other_variant(const tune::Task& task, Mode mode) {
  const tune::RecordKey key = task.key();
  const tune::BoundSpace space = task.bound_space();
  constexpr std::size_t most_looked_at = 64;
  for (const tune::Neighbour& neighbour : tune::Database::standard().neighbours(key, most_looked_at)) {
    const tune::RecordKey& other = *neighbour.record->key;
    if ((mode == Mode::pinned && neighbour.source == tune::Source::cache) ||
        other.problem.sizes != key.problem.sizes || other.silicon != key.silicon ||
        other.backend != key.backend || other.code_generation != key.code_generation ||
        other.tools.verification != key.tools.verification ||
        first_fields(other.problem.kind) != first_fields(key.problem.kind))
      continue;
    const auto point = tune::point_of(space.knobs(), neighbour.record->config);
    if (point && space.contains(*point)) return space.config(*point);
  }
  return std::nullopt;
}

Known look_up(const tune::Task& task, Mode mode) {
  std::optional<tune::Picked> known;
  try {
    known = tune::pick_known(task, mode);
  } catch (const UserError&) { // mode pinned
    if (auto other = of_other_variant(task, mode)) return {std::move(other)};
    throw;
  }
  if (known && known->known) return {known->config, !known->stale};
  if (auto other = of_other_variant(task, mode)) return {std::move(other)};
  return {known ? std::optional(known->config) : std::nullopt};
}

// Copies the integers of the launch, which may be indices, and waits for them.
void take_integers(tune::Task& task, const StreamAt& at) {
  task.contents = tune::copy_contents(task, at.stream, tune::Copied::integers, tune::most_copied_online).of;
  at.stream.synchronize();
}

std::optional<Config> ask(const tune::TunableKernel& tunable, const DescribedLaunch& described,
                          std::initializer_list<std::int64_t> sizes, Mode mode) {
  tune::Task task = task_of(described, tunable, sizes);
  task.deterministic |= mode == Mode::deterministic;
  // Most programs have no records, and recording the kernel takes milliseconds.
  const bool may_be_known =
      mode == Mode::pinned || tune::Database::standard().knows(task.kernel, tune::hash_of(task.space));
  if (may_be_known || searches(mode)) task.ir = ir_of(described, task);
  const Known known = may_be_known ? look_up(task, mode) : Known();
  if (known.exact) return known.config;
  const StreamAt& at = described.at;
  if (known.config) task.try_first.push_back(*known.config);
  if (mode == Mode::tune) {
    take_integers(task, at);
    return tune::tune(task, {}).config();
  }
  const tune::BoundSpace space = task.bound_space();
  if (mode == Mode::online && !space.seeds().empty()) {
    const Config present = known.config ? *known.config : space.config(space.seeds().front());
    // A config that the search finds changes the database, so the next launch looks it up again.
    tune::search_in_background(std::move(task), present, {}, [](const Config&) {}, &at.stream);
  }
  return known.config;
}

} // namespace

constinit thread_local LookupRecorder* LookupRecorder::current = nullptr;

std::optional<Config> known_config(const char* name, const StreamAt& at,
                                   std::initializer_list<std::int64_t> sizes, const TunableLaunch& launch) {
  static const Mode usual_mode = tune::default_mode();
  const bool may_search = searches(usual_mode);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return std::nullopt; // nothing runs
  LookupRecorder* const recorder = LookupRecorder::current;
  if ((usual_mode == Mode::off || usual_mode == Mode::analytic) && !recorder) return std::nullopt;
  const DescribedLaunch described(at, launch);
  const auto tunable = [&]() -> const tune::TunableKernel& {
    const tune::TunableKernel* registered = tune::find_space(name);
    internal_check(registered != nullptr, "an op looks up a kernel whose space is not registered");
    return *registered;
  };
  if (recorder) {
    recorder->keep(task_of(described, tunable(), sizes), at.stream);
    return std::nullopt;
  }
  const Device device = at.stream.device();
  const auto threads = static_cast<std::uint64_t>(device.is_cpu() ? device.properties().num_threads : 0);
  Key key{reinterpret_cast<std::uintptr_t>(&described.kernel), described.layouts,
          std::hash<Device>{}(device) ^ threads << 32};
  internal_check(sizes.size() <= key.size() - 3, "an op has more sizes than its key has room for");
  std::copy(sizes.begin(), sizes.end(), key.begin() + 3);

  Answers& known = known_answers();
  if (const auto answer = known.find(key)) return answer->config;
  // There is nothing to measure in a rehearsal, and contents cannot be copied while a graph is captured.
  const bool waits = may_search && (kiln::detail::Rehearsing::current() || cuda::is_capturing(at.stream));
  const Mode mode = waits ? Mode::cached : usual_mode;
  std::unique_lock searching(known.searching, std::defer_lock);
  if (mode == Mode::tune) { // one thread searches; others that need the same config wait for it
    searching.lock();
    if (const auto answer = known.find(key)) return answer->config;
  }
  std::optional<Config> config;
  try {
    config = ask(tunable(), described, sizes, mode);
  } catch (const Error& e) {
    if (mode == Mode::pinned && !launch.one_order) throw UserError(SourceLocation(at.site), e.what());
    if (mode != Mode::pinned)
      log_warning_once(std::string("ops: ") + e.what() + "; they go on with configs of their own");
  }
  if (!waits) known.keep(key, config);
  return config;
}

RowConfig known_row_config(const char* name, const StreamAt& at, const Array& x, bool batch_invariant,
                           const TunableLaunch& launch) {
  const std::int64_t rows = batch_invariant ? any_rows : x.extents[0], columns = x.extents[1];
  std::optional<Config> known;
  if (!batch_invariant) known = known_config(name, at, {rows, columns}, launch);
  if (!known)
    return row_config(at.stream.device(), rows, columns, size_of(launch.variant.compute), rows_of_line(x));
  return {known->get(whole_knob).value_or(1) != 0, without_whole(*known)};
}

} // namespace kiln::ops::detail
