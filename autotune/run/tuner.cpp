// Implements a tuning run from the lookup to the published winner.
#include <kiln/autotune/run/tuner.h>

#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/check_task.h>
#include <kiln/autotune/run/compared.h>
#include <kiln/autotune/run/interruptible_run.h>
#include <kiln/autotune/run/recorder.h>
#include <kiln/autotune/run/refusals.h>
#include <kiln/autotune/run/siblings.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/task_workload.h>
#include <kiln/autotune/search/table.h>
#include <kiln/jit/base/log.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace kiln::tune {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string after_semicolon(const std::string& text) { return text.empty() ? "" : "; " + text; }

constexpr double least_left = 1e-3; // the least time that a measurer gets, since 0 means no limit

// The number of points that the analytic model evaluates before a search; each takes a fraction of a
// millisecond.
constexpr std::size_t points_looked_at = 4096;
// The largest shares of the budget's seconds for evaluating these points, and for measuring the machine if it
// is busy or slow.
constexpr double looking_share = 0.1, measuring_share = 0.25;

int interruptions_before(const TuneOptions& options) {
  return options.interruptions_before.value_or(interruptions());
}

// Returns true after `seconds`, or once the runs are interrupted.
Stop stop_after(double seconds, int interruptions_before) {
  return [until = now() + seconds, interruptions_before] {
    return interruptions() != interruptions_before || now() > until;
  };
}

// Returns the first legal seed; throws UserError if there is none.
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
                    fmt::format("{}", fmt::join(refusals, "; ")));
  const std::string what = "tuning " + task.kernel + " for " + task.problem.to_string() + ": ",
                    first = "\"" + space.refused_by(space.space().seeds().front()) + "\" rejects the first";
  const auto* all = space.points(1, stop_after(1, interruptions()));
  if (all && all->empty())
    throw UserError(what +
                    "no config satisfies all rules of the space, which contradict each other or the knobs "
                    "(of the seeds, " +
                    first + ")");
  throw UserError(what + "no seed satisfies the rules of the space (" + first + "); give it one that does");
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
    throw UserError(fmt::format("tuning {}: the budget of {:.3g} s ended before the default was measured; {}",
                                task->kernel, budget_seconds,
                                suspicion.empty()
                                    ? "give it more time"
                                    : "give it more time unless it is an endless loop; " + suspicion));
  if (!search.best) {
    std::map<std::string, int> kinds;
    for (const Trial& trial : search.trials)
      ++kinds[name(trial.result.status)];
    std::string text;
    for (const auto& [kind, count] : kinds)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
    throw UserError("tuning " + task->kernel + ": no config worked" +
                    (text.empty() ? "" : " (" + text + ")") + after_semicolon(first_failure(*this)));
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

// Makes the first seed the result if the best trial could not be verified in time. The outputs of all others
// are compared with its outputs, so that it is right by definition.
static void fall_back_to_seed(SearchResult& result, const Point& seed, const Measurement& measured) {
  if (!result.best || result.is_confirmed(*result.best)) return;
  if (result.is_confirmed(seed)) return result.best.reset(); // it failed when it ran again
  result.fell_back = result.best != seed;
  result.best = seed;
  result.best_result = measured;
  result.finalists.push_back(seed);
  result.confirmed.push_back(measured);
}

static void keep_last_of_each_parameter(std::vector<OutputCheck>& checks) {
  std::vector<OutputCheck> last;
  for (OutputCheck& check : checks) {
    std::erase_if(last, [&](const OutputCheck& other) { return other.parameter == check.parameter; });
    last.push_back(std::move(check));
  }
  checks = std::move(last);
}

Tuning tune(const Task& given, const TuneOptions& requested) {
  const double begin = now();
  TuneOptions options = requested;
  options.interruptions_before = interruptions_before(requested);
  check_key(options.key);
  check_tunable(given);
  Tuning tuning;
  tuning.strategy = options.strategy;
  const auto own = std::make_shared<Task>(given);
  own->deterministic |= options.deterministic;
  own->outputs.insert(own->outputs.end(), options.outputs.begin(), options.outputs.end());
  keep_last_of_each_parameter(own->outputs);
  check_comparison(*own);
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
  // Evaluate fewer points if the rules or the recording of the kernel are slow.
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
  SiblingRecords siblings = siblings_of(task, space, *tuning.machine);
  context.siblings = std::move(siblings.siblings);
  tuning.bad_records = siblings.bad_records;
  context.favourites = favourites_of(records.key(), space);
  for (const Config& config : task.try_first)
    if (const auto point = point_of(space.knobs(), config.to_string()); point && space.contains(*point))
      context.favourites.push_back(*point);
  if (!space.points(points_looked_at)) {
    context.candidates = looked_at;
    context.favourites.insert(context.favourites.end(), expected.begin(), expected.end());
  }
  tuning.sibling_records = context.siblings.size();
  auto strategy = make_strategy(options.strategy, std::move(context));
  const double modelling = now() - known_machine;

  MeasureOptions measure;
  measure.jobs = options.jobs;
  measure.threads = Device::cpu().properties().num_threads; // of this thread's pool, as in the key
  tuning.jobs = LiveMeasurer::jobs_of(measure);
  measure.cold_cache = options.cold;
  measure.seed = options.seed;
  measure.announce = options.announce;
  Budget budget = budget_of(options);
  tuning.budget_seconds = budget.seconds;
  measure.seconds = std::max(least_left, budget.seconds - (now() - begin));
  LiveMeasurer measurer(workload_of(task), space, space.config(fallback), measure);
  const InterruptibleRun entered(measurer);
  if (interruptions() != options.interruptions_before) measurer.interrupt(); // before it was registered
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
  if (!measurer.interrupted() && tuning.search.stopped_by != "interrupted")
    fall_back_to_seed(tuning.search, fallback, measurer.fallback());
  tuning.kept = records.finish(tuning.search);
  if (options.record) Database::standard().look_again();
  if (tuning.search.best && tuning.search.best_result.seconds < tuning.bound)
    forget_machine(task.device, RecordStore::standard_folder());
  tuning.checked = measurer.checked();
  tuning.warnings = warnings_of(measurer.fallback().outputs);
  for (std::string& warning : warnings_of(tuning))
    tuning.warnings.push_back(std::move(warning));
  tuning.refusals = refusals_of(tuning);
  const auto log = [&](const std::string& text) {
    log_warning("tuning " + task.kernel + " for " + task.problem.to_string() + ": " + text);
  };
  for (const std::string& warning : tuning.warnings)
    log(warning);
  if (!tuning.refusals.empty()) log(tuning.refusals);
  if (tuning.search.trials.empty()) tuning.suspicion = measurer.suspicion();
  tuning.worker_seconds = measurer.totals().compile_seconds + measurer.totals().run_seconds;
  return tuning;
}

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
