// Implements known_config, which looks up each problem in the tuner's database once and keeps the answer.
#include <kiln/ops/detail/known_config.h>

#include <kiln/autotune/mode.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/background.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/dsl/layout_class.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/runtime/rehearsing.h>

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

// The layout class of an array, by the rules of a launch (KernelCore::check_arguments).
LayoutClass layout_of(const Array& a) {
  const int last = a.rank - 1;
  if (last < 0 || (a.extents[last] > 1 && a.strides[last] != 1)) return LayoutClass::Any;
  auto bits = reinterpret_cast<std::uintptr_t>(a.data);
  for (int i = 0; i < last; ++i)
    if (a.extents[i] > 1) bits |= static_cast<std::uintptr_t>(a.strides[i] * size_of(a.dtype));
  return bits % 16 == 0 ? LayoutClass::Aligned : LayoutClass::Unit;
}

// Identifies a problem: the address of the kernel's name, dtype and layouts, device, and up to three sizes.
using Key = std::array<std::uint64_t, 9>;
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

std::optional<Config> ask(const char* kernel, DType dtype, Device device,
                          std::initializer_list<std::int64_t> sizes, const std::vector<LayoutClass>& layouts,
                          Mode mode) {
  const tune::TunableKernel* tunable = tune::find_tunable(kernel);
  internal_check(tunable != nullptr, "an op looks up a kernel that is not registered");
  std::string shape;
  for (std::int64_t size : sizes)
    shape += (shape.empty() ? "" : "x") + std::to_string(size);
  tune::Task task = tune::make_task(*tunable, std::string(name(dtype)), shape, device);
  const bool as_measured = task.layouts == layouts;
  task.layouts = layouts;
  task.problem.kind = std::string(name(dtype));
  for (LayoutClass layout : layouts)
    task.problem.kind += std::string(".") + cli::layout_text(layout);
  task.deterministic = mode == Mode::deterministic;
  const auto known = tune::pick_known(task, mode);
  if (as_measured && (!known || !known->known || known->stale)) {
    if (mode == Mode::tune) return tune::tune(task, {}).config();
    const tune::BoundSpace space = task.bound_space();
    if (mode == Mode::online && !space.seeds().empty()) {
      const Config present = known ? known->config : space.config(space.seeds().front());
      // A config that the search finds changes the database, so the next launch looks it up again.
      tune::search_in_background(task, present, {}, [](const Config&) {});
    }
  }
  return known ? std::optional(known->config) : std::nullopt;
}

} // namespace

std::optional<Config> known_config(const char* kernel, const StreamAt& at,
                                   std::initializer_list<std::int64_t> sizes,
                                   std::initializer_list<const Array*> arrays) {
  static const Mode usual_mode = tune::default_mode();
  const bool searches = usual_mode == Mode::online || usual_mode == Mode::tune;
  const bool rehearsing = kiln::detail::Rehearsing::current(); // there is nothing to measure
  const Mode mode = searches && rehearsing ? Mode::cached : usual_mode;
  if (mode == Mode::off || mode == Mode::analytic) return std::nullopt;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return std::nullopt; // nothing runs
  const Device device = at.stream.device();
  const DType dtype = (*arrays.begin())->dtype;
  std::uint64_t classes = static_cast<std::uint64_t>(dtype);
  for (const Array* array : arrays) {
    if (array->dtype != dtype) return std::nullopt;
    classes = classes << 2 | static_cast<std::uint64_t>(layout_of(*array));
  }
  Key key{reinterpret_cast<std::uintptr_t>(kernel), classes, std::hash<Device>{}(device)};
  internal_check(sizes.size() <= key.size() - 3, "an op has more sizes than its key has room for");
  std::copy(sizes.begin(), sizes.end(), key.begin() + 3);

  Answers& known = known_answers();
  if (const auto answer = known.find(key)) return answer->config;
  std::unique_lock searching(known.searching, std::defer_lock);
  if (mode == Mode::tune) { // one thread searches; others that need the same config wait for it
    searching.lock();
    if (const auto answer = known.find(key)) return answer->config;
  }
  std::vector<LayoutClass> layouts;
  for (const Array* array : arrays)
    layouts.push_back(layout_of(*array));
  std::optional<Config> config;
  try {
    config = ask(kernel, dtype, device, sizes, layouts, mode);
  } catch (const Error& e) {
    if (mode == Mode::pinned) throw UserError(SourceLocation(at.site), e.what());
    log_warning_once(std::string("ops: ") + e.what() + "; they go on with configs of their own");
  }
  if (!searches || !rehearsing) known.keep(key, config);
  return config;
}

RowConfig known_row_config(const char* kernel, const StreamAt& at, DType compute,
                           std::initializer_list<const Array*> arrays, bool batch_invariant) {
  const Array& x = **arrays.begin();
  const std::int64_t rows = batch_invariant ? any_rows : x.extents[0], columns = x.extents[1];
  std::optional<Config> known;
  if (kernel && !batch_invariant) known = known_config(kernel, at, {rows, columns}, arrays);
  if (!known) return row_config(at.stream.device(), rows, columns, size_of(compute), rows_of_line(x));
  return {known->get(whole_knob).value_or(1) != 0, without_whole(*known)};
}

} // namespace kiln::ops::detail
