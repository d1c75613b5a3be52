// Tuning runs.
#include <kiln/autotune/tuner.h>

#include <kiln/autotune/measure/drift.h>
#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/search/table.h>
#include <kiln/autotune/task.h>
#include <kiln/autotune/task_workload.h>
#include <kiln/jit/runtime/compile_policy.h>
#include <kiln/jit/runtime/fork.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <thread>

namespace kiln::tune {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What interrupt_tuning ends: the runs of this process, and none of a parent's.
struct Runs final : ForkAware {
  std::array<std::atomic<LiveMeasurer*>, 16> measurers{}; // a run too many cannot be interrupted
  std::atomic<int> interrupting{0};                       // calls that look at them now
  std::atomic<int> interrupts{0};                         // so far

  void reset_in_child() noexcept override {
    for (auto& slot : measurers)
      slot.store(nullptr);
    interrupting.store(0);
  }
};
Runs runs;

// Enters a measurer there for as long as it lives.
class Running {
public:
  explicit Running(LiveMeasurer& measurer) {
    for (auto& slot : runs.measurers) {
      LiveMeasurer* nobody = nullptr;
      if (!slot.compare_exchange_strong(nobody, &measurer)) continue;
      slot_ = &slot;
      return;
    }
  }
  ~Running() {
    if (slot_) slot_->store(nullptr);
    while (runs.interrupting.load() != 0) // by another thread, which may have found it there
      std::this_thread::yield();
  }
  Running(const Running&) = delete;

private:
  std::atomic<LiveMeasurer*>* slot_ = nullptr;
};

constexpr double least_left = 1e-3; // seconds that a measurer has in any case, since none are no limit

// That the analytic model looks at before a search: it takes a fraction of a millisecond for each.
constexpr std::size_t points_looked_at = 4096;
// Of the budget's seconds, at most: for that, and for measuring the machine where it is busy or slow.
constexpr double looking_share = 0.1, measuring_share = 0.25;

int interruptions_before(const TuneOptions& options) {
  return options.interruptions_before.value_or(interruptions());
}

// When so many seconds are over, or somebody ends the runs.
Stop stop_after(double seconds, int interruptions_before) {
  return [until = now() + seconds, interruptions_before] {
    return interruptions() != interruptions_before || now() > until;
  };
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "; ") + line;
  return text;
}

RecordKey key_of(const Task& task) {
  RecordKey key = make_key(*task.canonical(), task.space, task.recorded_problem(), task.device);
  key.bucketing = task.bucketing;
  return key;
}

// Keeps each trial of a run as soon as there is one: what ends this process loses the one that it is at.
class Recorder {
public:
  Recorder(const Task& task, const BoundSpace& space, const TuneOptions& options)
      : key_(std::make_shared<RecordKey>(key_of(task))), problem_(task.problem), space_(space),
        cold_(options.cold), wanted_(options.record) {}

  const RecordKey& key() const { return *key_; }

  void add_trials(const SearchResult& so_far) {
    for (; wanted_ && added_ < so_far.trials.size(); ++added_) {
      const Trial& trial = so_far.trials[added_];
      Record record = record_of(trial.point, trial.result);
      record.source = trial.source, record.predicted = trial.predicted,
      record.trial = static_cast<int>(added_);
      Database::standard().store().append(std::move(record));
    }
  }

  // A search that was interrupted keeps its trials, and publishes nothing that was not confirmed.
  // The config that launches use as before, if that stays; else empty.
  std::string finish(const SearchResult& result) {
    add_trials(result);
    std::string kept;
    for (std::size_t i = 0; wanted_ && i < result.finalists.size() && i < result.confirmed.size(); ++i) {
      Record record = record_of(result.finalists[i], result.confirmed[i]);
      record.confirmed = true, record.source = "confirmation";
      if (result.best && result.finalists[i] == *result.best && record.result.ok()) {
        kept = better_known(record, result);
        if (kept.empty()) Database::standard().publish(record);
      }
      Database::standard().store().append(std::move(record));
    }
    return kept;
  }

  // What others have kept of this question since it was last asked, if it was measured as here. The machine
  // may have been faster or slower for them: what they say in terms of the reference becomes seconds of this
  // run, where it took `reference_seconds`.
  News news(double reference_seconds) {
    News news;
    const std::string own = RecordStore::session();
    for (const Record& record : Database::standard().store().load(Filter::of(*key_), &read_).records) {
      if (record.session == own) continue;
      heard_[record.session] = now();
      const auto point = point_of(space_.knobs(), record.config);
      const bool alike = !record.confirmed && record.measured_problem() == problem_ &&
                         (is_cold(record) == cold_ || !record.result.ok()) &&
                         record.result.status != Status::device_lost; // that machine's own misfortune
      if (!alike || !point || !space_.contains(*point)) continue;
      news.trials.push_back({*point, record.result, "shared"});
      remove_drift(news.trials.back().result, reference_seconds);
    }
    std::erase_if(heard_, [](const auto& other) { return now() - other.second > silence; });
    news.searches = 1 + heard_.size();
    news.own_rank = static_cast<std::size_t>(std::distance(heard_.begin(), heard_.lower_bound(own)));
    return news;
  }
  // What was there before is for the start alone.
  void skip_old_news() { news(0), heard_.clear(); }

private:
  // The config in use, if a winner is not to take its place. A run that never looked at it, because it had
  // few trials, has to be faster than it was, measured alike; and one of warm caches, which flatter small
  // tiles, says nothing against what was found from memory.
  std::string better_known(const Record& winner, const SearchResult& result) const {
    const std::shared_ptr<const Record> known = Database::standard().store().best(*key_);
    if (!known || !known->confirmed || known->config == winner.config) return {};
    const auto point = point_of(space_.knobs(), known->config);
    if (!point || !space_.contains(*point)) return {};
    if (is_cold(*known) && !cold_) return known->config;
    const bool measured = std::any_of(result.trials.begin(), result.trials.end(),
                                      [&](const Trial& trial) { return trial.point == *point; });
    const bool faster = is_cold(*known) == cold_ && winner.result.seconds < known->result.seconds;
    return measured || faster ? std::string() : known->config;
  }
  static constexpr const char* cold_fact = "cold"; // its arguments came from memory
  static bool is_cold(const Record& record) { return record.result.facts.contains(cold_fact); }

  Record record_of(const Point& point, const Measurement& result) const {
    Record record;
    record.key = key_;
    if (!(problem_ == key_->problem)) record.problem = problem_;
    record.config = config_text(space_.knobs(), point);
    record.result = result;
    if (cold_ && result.ok()) record.result.facts[cold_fact] = 1;
    return record;
  }

  std::shared_ptr<const RecordKey> key_;
  Problem problem_;
  const BoundSpace& space_;
  bool cold_, wanted_;
  std::size_t added_ = 0;
  LoadCursor read_;                     // up to where news() has read
  std::map<std::string, double> heard_; // when, of each other session
  static constexpr double silence = 60; // seconds, after which a search counts as ended
};

// What did well for this question with other tools, and for others like it.
std::vector<Point> favourites_of(const RecordKey& key, const BoundSpace& space) {
  std::vector<Point> points;
  auto add = [&](const Record& record) {
    auto point = point_of(space.knobs(), record.config);
    if (point && space.contains(*point) && std::find(points.begin(), points.end(), *point) == points.end())
      points.push_back(std::move(*point));
  };
  Database& known = Database::standard();
  if (const Lookup found = known.find_best(key)) add(*found.record);
  for (const Neighbour& neighbour : known.neighbours(key))
    add(*neighbour.record);
  return points;
}

// Records of other problems, as the columns that this search learns from: of each problem its newest, and of
// all problems equally many.
struct Teachers {
  std::vector<Sibling> siblings;
  int bad_records = 0;
};
constexpr std::size_t most_siblings = 2000;

// Adds the records of one problem. UserError if the task cannot be made for it.
void add_siblings(const std::vector<Record>& records, int group, const Task& task, const BoundSpace& space,
                  const Machine& machine, std::vector<Sibling>& siblings) {
  double best = INFINITY;
  for (const Record& r : records)
    if (r.result.ok() && r.result.seconds > 0) best = std::min(best, r.result.seconds);
  if (!std::isfinite(best)) return;
  const Task other = task.for_problem(records.front().measured_problem());
  const BoundSpace bound = other.bound_space();
  Prior prior(other, bound, machine);
  for (const Record& r : records) {
    const auto point = point_of(space.knobs(), r.config);
    const Terms* terms = point ? prior.terms(*point) : nullptr;
    if (!terms || siblings.size() == most_siblings) continue;
    const auto columns = terms->columns_of();
    siblings.push_back({{columns.begin(), columns.end()},
                        r.result.ok() ? std::log(r.result.seconds / best) : INFINITY,
                        group});
  }
}

Teachers siblings_of(const Task& task, const BoundSpace& space, const Machine& machine) {
  Teachers found;
  if (!task.for_problem) return found;
  Filter filter;
  filter.kernel = task.kernel;
  filter.space = hash_of(task.space);
  filter.backend = backend_of(task.device);
  Loaded loaded = Database::standard().store().load(filter);
  found.bad_records = static_cast<int>(loaded.counts.bad + loaded.counts.torn + loaded.counts.future);
  std::map<std::string, std::vector<Record>> problems;
  for (Record& record : loaded.records)
    if (!(record.measured_problem() == task.problem) && !is_empty(record.measured_problem()))
      problems[record.measured_problem().to_string() + record.key->silicon].push_back(std::move(record));
  int group = 0;
  for (auto& [text, records] : problems) {
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& a, const Record& b) { return a.time > b.time; });
    if (const std::size_t share = std::max<std::size_t>(1, most_siblings / problems.size());
        records.size() > share)
      records.erase(records.begin() + static_cast<std::ptrdiff_t>(share), records.end());
    try {
      add_siblings(records, group, task, space, machine, found.siblings);
      ++group;
    } catch (const Error&) { // its sizes do not tell all of its arguments, or are of another version
    }
  }
  return found;
}

// The seeds that are legal, as configs, best known first.
Point known_good(BoundSpace& space, Prior& prior, const Task& task) {
  std::vector<std::string> refusals;
  for (const Point& seed : space.seeds()) {
    if (prior.terms(seed)) return seed;
    refusals.push_back("{" + space.text(seed) + "}: " + prior.refusal(seed));
  }
  if (space.space().seeds().empty())
    throw UserError("tuning " + task.kernel +
                    ": the space has no seed; give it a config that works (Space::seed)");
  if (!refusals.empty())
    throw UserError("tuning " + task.kernel + ": no seed is legal on " + to_string(task.device) + ": " +
                    joined(refusals));
  const std::string what = "tuning " + task.kernel + " for " + task.problem.to_string() + ": ",
                    first = "\"" + space.refused_by(space.space().seeds().front()) + "\" refuses the first";
  const auto* all = space.points(1, stop_after(1, interruptions()));
  if (all && all->empty())
    throw UserError(what +
                    "no config keeps all rules of the space, which contradict each other or the knobs "
                    "(of the seeds, " +
                    first + ")");
  throw UserError(what + "no seed keeps the rules of the space (" + first + "); give it one that does");
}

} // namespace

Budget budget_of(const TuneOptions& options) {
  Budget budget;
  budget.trials = options.effort == Effort::quick ? 32 : options.effort == Effort::full ? 128 : 512;
  budget.seconds = options.effort == Effort::quick ? 20 : options.effort == Effort::full ? 120 : 900;
  if (options.trials > 0) budget.trials = options.trials;
  if (options.seconds > 0) budget.seconds = options.seconds;
  budget.patience = std::max(24, budget.trials / 3);
  budget.confirm = options.effort == Effort::quick ? 4 : 8;
  return budget;
}

Machine machine_for(Device device, const TuneOptions& options) {
  constexpr double enough = 10; // seconds; measuring takes two
  const double seconds = budget_of(options).seconds;
  return machine_of(device, RecordStore::standard_folder(), seconds >= enough,
                    stop_after(measuring_share * seconds, interruptions_before(options)));
}

Config Tuning::config() const {
  if (!search.best && search.trials.empty() && search.stopped_by == "seconds")
    throw UserError(
        fmt::format("tuning {}: {:.3g} s were over before the default was measured; give it more time",
                    task->kernel, budget_seconds));
  if (!search.best) {
    std::map<std::string, int> kinds;
    for (const Trial& trial : search.trials)
      ++kinds[name(trial.result.status)];
    std::string text;
    for (const auto& [kind, count] : kinds)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
    throw UserError("tuning " + task->kernel + ": no config worked" +
                    (text.empty() ? "" : " (" + text + ")"));
  }
  return space->config(*search.best);
}

const Measurement* Tuning::of(const Point& point) const {
  for (std::size_t i = 0; i < search.finalists.size() && i < search.confirmed.size(); ++i)
    if (search.finalists[i] == point) return &search.confirmed[i];
  for (const auto* trials : {&search.trials, &search.shared})
    for (const Trial& trial : *trials)
      if (trial.point == point) return &trial.result;
  return nullptr;
}

Tuning tune(const Task& given, const TuneOptions& asked) {
  const double begin = now();
  TuneOptions options = asked;
  options.interruptions_before = interruptions_before(asked);
  if (is_empty(given.problem))
    throw UserError("tuning " + given.kernel + " for " + given.problem.to_string() +
                    ": a size is 0, so that there is nothing to measure; give all sizes a positive number");
  if (compile_policy() == CompilePolicy::forbid)
    throw UserError("tuning " + given.kernel +
                    " compiles kernels, which the compile policy forbids; tune with " +
                    "KILN_COMPILE_POLICY=allow, and take what is found along with `kiln records export`");
  Tuning tuning;
  tuning.strategy = options.strategy;
  const auto own = std::make_shared<Task>(given);
  own->deterministic |= options.deterministic;
  tuning.task = own;
  const Task& task = *tuning.task;
  tuning.space = std::make_shared<BoundSpace>(task.bound_space());
  BoundSpace& space = *tuning.space;
  tuning.machine = std::make_shared<const Machine>(machine_for(task.device, options));
  const double known_machine = now();
  tuning.prior = std::make_shared<Prior>(task, space, *tuning.machine);
  Prior& prior = *tuning.prior;

  Recorder records(task, space, options);
  const Point fallback = known_good(space, prior, task);
  tuning.fallback = fallback;
  // Of a space whose rules are slow, or a kernel that is slow to record, fewer.
  const Stop enough = stop_after(looking_share * budget_of(options).seconds, *options.interruptions_before);
  const std::vector<Point> looked_at = some_points(space, points_looked_at, enough);
  const std::vector<Point> expected = prior.best(looked_at, 8, enough);
  tuning.bound = prior.bound();
  if (!expected.empty()) tuning.analytic = expected.front();

  SearchContext context{space, options.seed, {}, {}, {}, {}, {}};
  context.parallel = static_cast<std::size_t>(LiveMeasurer::jobs_of({.jobs = options.jobs}));
  context.prior = [&prior](const Point& point) { return prior(point); };
  for (const char* name : Terms::column_names())
    context.column_names.emplace_back(name);
  context.columns = [&prior](const Point& point, std::span<float> out) {
    const Terms* terms = prior.terms(point);
    if (!terms) return std::fill(out.begin(), out.end(), std::nanf(""));
    const auto columns = terms->columns_of();
    std::copy(columns.begin(), columns.end(), out.begin());
  };
  Teachers teachers = siblings_of(task, space, *tuning.machine);
  context.siblings = std::move(teachers.siblings);
  tuning.bad_records = teachers.bad_records;
  context.favourites = favourites_of(records.key(), space);
  if (!space.points(points_looked_at)) {
    context.candidates = looked_at;
    context.favourites.insert(context.favourites.end(), expected.begin(), expected.end());
  }
  tuning.sibling_records = context.siblings.size();
  auto strategy = make_strategy(options.strategy, std::move(context));
  const double modelling = now() - known_machine;

  MeasureOptions measure;
  measure.jobs = options.jobs;
  tuning.jobs = LiveMeasurer::jobs_of(measure);
  measure.cold_cache = options.cold;
  measure.seed = options.seed;
  measure.announce = options.announce;
  Budget budget = budget_of(options);
  tuning.budget_seconds = budget.seconds;
  measure.seconds = std::max(least_left, budget.seconds - (now() - begin));
  LiveMeasurer measurer(workload_of(task), space, space.config(fallback), measure);
  const Running entered(measurer);
  if (interruptions() != options.interruptions_before) measurer.interrupt(); // while there was none yet
  const double starting = now();
  measurer.start();
  budget.spent = now() - begin;
  const Progress progress = [&](const SearchResult& so_far) {
    records.add_trials(so_far);
    return !measurer.interrupted() && (!options.progress || options.progress(so_far));
  };
  Others others;
  if (options.record && uses_siblings(options.strategy)) {
    records.skip_old_news();
    others = [&records, &measurer] { return records.news(measurer.fallback().seconds); };
  }
  tuning.search = search(*strategy, measurer, budget, progress, others);
  tuning.search.model_seconds += modelling;
  tuning.search.measure_seconds += begin + budget.spent - starting;
  if (const auto* all = space.points(points_looked_at);
      all && all->size() == 1 &&
      (tuning.search.stopped_by == "exhausted" || tuning.search.stopped_by == "chance"))
    tuning.search.stopped_by = "one point";
  tuning.kept = records.finish(tuning.search);
  if (options.record) Database::standard().look_again();
  if (tuning.search.best && tuning.search.best_result.seconds < tuning.bound)
    forget_machine(task.device, RecordStore::standard_folder());
  tuning.checked = measurer.checked();
  tuning.worker_seconds = measurer.totals().compile_seconds + measurer.totals().run_seconds;
  return tuning;
}

void interrupt_tuning() noexcept {
  ++runs.interrupts;
  ++runs.interrupting;
  for (auto& slot : runs.measurers)
    if (LiveMeasurer* measurer = slot.load()) measurer->interrupt();
  --runs.interrupting;
}

int interruptions() noexcept { return runs.interrupts; }

Table table_of(const Tuning& tuning) {
  Table table;
  table.family = tuning.task->kernel;
  table.problem = tuning.task->problem;
  table.device = tuning.task->device.properties().name;
  table.name = table.family + " " + table.problem.to_string();
  for (const Trial& trial : tuning.search.trials) {
    table.points.push_back(trial.point);
    table.results.push_back(*tuning.of(trial.point));
  }
  for (const Knob& knob : tuning.space->knobs())
    table.space.knob(knob);
  table.space.only(table.points);
  if (tuning.fallback) table.space.seed(tuning.space->config(*tuning.fallback));
  return table;
}

} // namespace kiln::tune
