// Implements LiveMeasurer, which takes each candidate through the compiling and running processes.
#include <kiln/autotune/measure/live_measurer_impl.h>

#include <kiln/autotune/measure/drift.h>
#include <kiln/autotune/measure/host_functions.h>
#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/autotune/random.h>
#include <kiln/dsl/ir/parser.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

constexpr int most_jobs = 16;
constexpr double interpreter_seconds = 30;
constexpr double least_run_limit = 5;

MeasureOptions complete(MeasureOptions options) {
  options.jobs = LiveMeasurer::jobs_of(options);
  if (options.seconds > 0) { // less exact measurements, so that the time is enough for some
    options.most_seconds = std::min(options.most_seconds, options.seconds / 40);
    options.least_seconds = std::min(options.least_seconds, options.most_seconds);
    options.confirm_seconds = std::min(options.confirm_seconds, options.seconds / 60);
  }
  return options;
}

// Returns the given contents of all arguments; arguments that share memory may share them.
GivenContents given_contents(const std::vector<Argument>& arguments) {
  GivenContents all;
  for (const Argument& a : arguments)
    if (a.fill.bytes && std::find(all.begin(), all.end(), a.fill.bytes) == all.end())
      all.push_back(a.fill.bytes);
  return all;
}

std::string after_semicolon(const std::string& text) { return text.empty() ? "" : "; " + text; }

} // namespace

LiveMeasurer::Impl::Impl(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options)
    : workload_(std::move(workload)), space_(space), fallback_(fallback),
      options_(complete(std::move(options))), given_(given_contents(workload_.arguments)),
      crew_(options_.threads, given_), compilers_(crew_, options_.jobs, options_.compile_limit) {
  crew_.answer_questions(
      [this](const Message& question) { return answer_for_functions(workload_, question); });
}

Message LiveMeasurer::Impl::setup_message(Crew::Role role) const {
  const bool runs = role == Crew::Role::run;
  Message arguments = Message::array();
  for (const Argument& a : workload_.arguments)
    arguments.push_back(to_message(
        a, first_given_descriptor +
               static_cast<int>(std::find(given_.begin(), given_.end(), a.fill.bytes) - given_.begin())));
  Message outputs = Message::array();
  for (const OutputCheck& check : workload_.outputs)
    outputs.push_back(to_message(check));
  Message message{{"do", "setup"},
                  {"role", runs ? "run" : "compile"},
                  {"device", to_string(workload_.device)},
                  {"arguments", std::move(arguments)},
                  {"seed", options_.seed},
                  {"tolerance", options_.tolerance},
                  {"outputs", std::move(outputs)},
                  {"timing",
                   {{"least", options_.least_seconds},
                    {"most", options_.most_seconds},
                    {"drop", options_.drop},
                    {"screening", options_.seconds > 0 ? options_.seconds / 20 : 1e9},
                    {"cold", options_.cold_cache}}}};
  if (runs) message["reference"] = reference_message_, message["seconds"] = std::min(left(), 1e9);
  if (runs && !workload_.reference.ir.empty()) {
    const Workload::Reference& r = workload_.reference;
    message["oracle"] = {{"ir", r.ir}, {"config", r.config.to_string()}};
    if (r.grid) message["oracle"]["grid"] = {r.grid->x, r.grid->y, r.grid->z};
  }
  announce_functions(message, workload_);
  if (device_fault_) message["fault"] = "device";
  return message;
}

double LiveMeasurer::Impl::left() const {
  return options_.seconds > 0 ? options_.seconds - seconds_since(begin_) : INFINITY;
}

void LiveMeasurer::Impl::allow_rest() {
  crew_.allow(left() + with_overtime(options_.seconds) - options_.seconds);
}

void LiveMeasurer::Impl::announce(const std::string& what) const {
  if (options_.announce) options_.announce(what);
}

Answer LiveMeasurer::Impl::set_up_runner(double seconds) {
  const auto begin = Clock::now();
  runner_ = crew_.start(Crew::Role::run);
  crew_.check_hello(*runner_);
  running_.clear();
  Answer answer = crew_.request(*runner_, setup_message(Crew::Role::run), seconds);
  while (answer.says_stage()) {
    running_ = answer.text("running", "");
    answer = crew_.await(*runner_, seconds - seconds_since(begin));
  }
  if (answer.kind == Answer::Kind::late) {
    crew_.kill(runner_);
    answer.error = "it did not finish within " + std::to_string(std::lround(seconds)) + " s";
  } else if (answer.kind == Answer::Kind::message && answer.message.contains("error") &&
             !answer.message.contains("status")) {
    answer.error = answer.text("error", "?");
  }
  if (!answer.error.empty()) runner_.reset();
  setup_seconds_ = seconds_since(begin);
  return answer;
}

void LiveMeasurer::Impl::start() {
  if (started_ || crew_.stopped()) return;
  allow_rest();
  announce("measuring the default {" + fallback_.to_string() + "}");
  crew_.open();
  reference_message_ = make_candidate(fallback_, false).message;
  constexpr int attempts = 3; // a process may be killed by something else
  std::string error;
  Failing how = Failing::other;
  for (int i = 0; i < attempts; ++i) {
    Answer answer = set_up_runner(options_.first_limit);
    how = answer.kind == Answer::Kind::late    ? Failing::endless
          : answer.kind == Answer::Kind::ended ? Failing::crash
                                               : Failing::other;
    if (answer.kind == Answer::Kind::interrupted) return;
    if (answer.error.empty()) {
      reference_ = measurement_from(answer.message);
      best_relative_ = 1;
      best_seconds_ = reference_.seconds;
      compilers_.note(reference_.compile_seconds);
      crew_.totals.compile_seconds += reference_.compile_seconds;
      started_ = true;
      break;
    }
    error = answer.error;
    if (answer.kind == Answer::Kind::message) break; // the worker reported the error
  }
  if (!started_)
    throw UserError((runs_reference()
                         ? running_ + " cannot be launched on "
                         : "the fallback config {" + fallback_.to_string() + "} cannot be measured on ") +
                    to_string(workload_.device) + ": " + error + after_semicolon(suspicion(how)));
  variations_ = variations();
  compilers_.set_up_with(setup_message(Crew::Role::compile));
  if (options_.check_reference)
    compare_with_interpreter();
  else
    checked_ = "nothing: the check is disabled";
}

// If time is short, the check gets a small part of it and covers fewer programs.
void LiveMeasurer::Impl::compare_with_interpreter() {
  constexpr double enough = 1, longest_launch = 0.05, longest = 0.1;
  if (reference_.seconds > longest_launch * left()) {
    checked_ = "nothing: there was no time";
    return;
  }
  const std::unique_ptr<WorkerProcess> process = crew_.start(Crew::Role::compile);
  crew_.check_hello(*process);
  Answer answer = crew_.request(*process, setup_message(Crew::Role::compile), hello_seconds);
  if (answer.kind == Answer::Kind::message)
    answer = crew_.request(
        *process,
        {{"do", "interpret"}, {"candidate", reference_message_}, {"seconds", std::min(enough, left() / 20)}},
        std::min(interpreter_seconds, longest * left()));
  if (answer.kind == Answer::Kind::message && answer.message.contains("error"))
    throw UserError(answer.text("error", "?") + after_semicolon(suspicion(Failing::other)));
  if (answer.kind == Answer::Kind::message)
    checked_ = answer.text("checked", "nothing: the worker gave no answer");
  else
    checked_ = answer.kind == Answer::Kind::late ? "nothing: the interpreter took too long"
                                                 : "nothing: " + answer.error;
}

bool LiveMeasurer::Impl::runs_reference() const { return !running_.empty() && running_ != "the default"; }

std::string LiveMeasurer::Impl::suspicion(Failing how) const {
  if (runs_reference())
    return how == Failing::endless
               ? "the time was spent in " + running_ + ", which may not end with these inputs"
               : std::string();
  if (!reference_message_.is_object()) return {}; // it was not even recorded
  const auto kernel = ir::parse(reference_message_.at("ir").get<std::string>(), "fallback");
  return suspect_of(workload_.arguments, *kernel, how);
}

bool LiveMeasurer::Impl::runner_ready() {
  if (lost_) return false;
  constexpr int attempts = 3;
  std::string error;
  for (int i = 0; !runner_ && i < attempts; ++i) {
    if (crew_.stopped() || lost_) return false;
    Answer answer = set_up_runner(compilers_.limit() + std::max(least_run_limit, 5 * setup_seconds_));
    if (answer.kind == Answer::Kind::interrupted) return false;
    error = answer.error;
  }
  if (runner_) return true;
  // The reference ran before, but no longer runs in a fresh process.
  lose(error);
  return false;
}

void LiveMeasurer::Impl::lose(const std::string& error) {
  lost_ = true;
  lost_error_ = to_string(workload_.device) + " no longer runs the reference:  " + one_line(error);
}

std::string LiveMeasurer::Impl::draw_fault() {
  const Faults& faults = options_.faults;
  if (faults.probability <= 0 || faults.kinds.empty()) return {};
  Random random(options_.seed * 0x9E3779B97F4A7C15u + ++trials_);
  random.bits();
  if (random.uniform() >= faults.probability) return {};
  return faults.kinds[random.below(faults.kinds.size())];
}

PendingCandidate LiveMeasurer::Impl::make_candidate(const Config& config, bool may_fail) const {
  PendingCandidate c;
  try {
    c.message = {{"ir", workload_.ir(config)}, {"config", config.to_string()}};
    if (workload_.grid) {
      const Grid grid = workload_.grid(config);
      c.message["grid"] = {grid.x, grid.y, grid.z};
    }
  } catch (const Error& e) { // recording failed
    if (!may_fail) throw;
    c.result = failed(Status::refused, e.what());
    c.compiled = c.done = true;
  }
  return c;
}

bool LiveMeasurer::Impl::is_known(const Point& point) const {
  constexpr double small_share = 0.05;
  return reference_.run_seconds > small_share * left() && space_.config(point) == fallback_;
}

PendingCandidate LiveMeasurer::Impl::make_trial(const Point& point) {
  PendingCandidate c = make_candidate(space_.config(point), true);
  if (is_known(point)) {
    c.result = reference_;
    c.compiled = c.done = true;
    return c;
  }
  const auto known = compiled_.extract(point);
  if (const std::string fault = known ? known.mapped().fault : draw_fault(); !fault.empty())
    c.message["fault"] = fault;
  if (!known) return c;
  c.result = known.mapped().result;
  c.compiled = true;
  c.done = !c.result.ok();
  return c;
}

// The limit covers two checked launches and the timing. The costs of the reference, which are larger, show
// how long checks take. 100 launches of the best config are about what a candidate needs that is ten times
// slower.
double LiveMeasurer::Impl::run_limit() const {
  if (options_.run_limit > 0) return options_.run_limit;
  return least_run_limit + options_.most_seconds + 3 * (reference_.run_seconds + setup_seconds_) +
         100 * best_seconds_;
}

void LiveMeasurer::Impl::note(const Measurement& m) {
  if (!m.ok() || m.seconds <= 0) return;
  if (best_relative_ == 0 || m.relative < best_relative_) {
    best_relative_ = m.relative;
    best_seconds_ = m.seconds;
  }
}

void LiveMeasurer::Impl::run(PendingCandidate& c) {
  const Measurement compiled = c.result;
  c.done = true;
  if (c.message.value("fault", "") == "device") device_fault_ = true;
  if (device_fault_) runner_.reset(); // as a failing driver would
  if (!runner_ready()) {
    c.done = lost_; // else it was interrupted
    c.result = failed(Status::device_lost, lost_error_);
    return;
  }
  const auto begin = Clock::now();
  const double limit = run_limit();
  const Message request{{"do", "run"},
                        {"candidate", c.message},
                        {"best", best_relative_},
                        {"seconds_allowed", limit + compilers_.limit()}};
  Answer answer = crew_.request(*runner_, request, compilers_.limit() + limit);
  while (answer.says_stage())
    answer = crew_.await(*runner_, limit);
  if (answer.kind == Answer::Kind::interrupted) {
    runner_.reset();
    c.done = false;
    return;
  }
  if (answer.kind == Answer::Kind::message)
    c.result = answer.message.contains("status") ? measurement_from(answer.message)
                                                 : failed(Status::crash, answer.text("error", "no answer"));
  else
    c.result = result_of_end(answer, false);
  if (c.result.run_seconds == 0) c.result.run_seconds = seconds_since(begin);
  c.result.compile_seconds = compiled.compile_seconds;
  for (const auto& [name, value] : compiled.facts)
    c.result.facts.emplace(name, value);
  crew_.totals.run_seconds += c.result.run_seconds;
  remove_drift(c.result, reference_.seconds);
  note(c.result);
  // A candidate that failed may have corrupted memory or this process's device.
  const Status s = c.result.status;
  if (answer.kind == Answer::Kind::late)
    crew_.kill(runner_);
  else if (s != Status::ok && s != Status::refused && s != Status::compile_error)
    runner_.reset();
}

std::vector<Measurement> LiveMeasurer::Impl::measure(std::span<const Point> points,
                                                     const Listener& listener) {
  start();
  std::vector<Measurement> results;
  if (!started_) return results; // interrupted
  std::vector<PendingCandidate> candidates;
  for (const Point& point : points)
    candidates.push_back(make_trial(point));
  const bool gone = lost_;
  bool enough = false;
  const auto report = [&](Measurement m) {
    if (lost_ && m.status == Status::device_lost) m.error = lost_error_; // the same error for all trials
    results.push_back(std::move(m));
    enough = listener && !listener(results.back());
  };
  // On a GPU, compiled candidates run while others are being compiled. On the CPU, compiling would disturb
  // them.
  const bool overlap = workload_.device.kind() == DeviceKind::Cuda;
  if (!gone)
    compilers_.compile(candidates, [&] {
      if (!overlap || enough || !compilers_.lost().empty() || results.size() == candidates.size()) return;
      PendingCandidate& next = candidates[results.size()];
      if (!next.done && next.compiled && !crew_.stopped()) run(next);
      if (next.done) report(next.result);
    });
  if (!lost_ && !compilers_.lost().empty()) lose(compilers_.lost());
  while (results.size() < candidates.size() && !enough) {
    PendingCandidate& next = candidates[results.size()];
    if (!next.done && !lost_ && !crew_.stopped()) run(next);
    if (!next.done && !lost_) break; // interrupted, or the time is up
    report(next.done && !gone ? next.result : failed(Status::device_lost, lost_error_));
  }
  return results;
}

std::vector<Measurement> LiveMeasurer::Impl::compile(std::span<const Point> points) {
  start();
  if (!started_ || lost_) return {};
  std::vector<PendingCandidate> candidates;
  for (const Point& point : points)
    candidates.push_back(make_trial(point));
  compilers_.compile(candidates, [] {});
  if (!compilers_.lost().empty()) lose(compilers_.lost());
  std::vector<Measurement> results;
  for (const PendingCandidate& c : candidates) {
    if (!c.compiled || lost_) break;
    const std::string fault = c.message.is_object() ? c.message.value("fault", "") : "";
    compiled_.insert_or_assign(points[results.size()], Compiled{c.result, fault});
    results.push_back(c.result);
  }
  return results;
}

// --- The class ---------------------------------------------------------------------------------------------

LiveMeasurer::LiveMeasurer(Workload workload, BoundSpace& space, Config fallback, MeasureOptions options)
    : impl_(std::make_unique<Impl>(std::move(workload), space, fallback, std::move(options))) {}
LiveMeasurer::~LiveMeasurer() = default;
int LiveMeasurer::jobs_of(const MeasureOptions& options) {
  return options.jobs > 0 ? options.jobs : std::min(most_jobs, Device::cpu().properties().num_threads);
}
void LiveMeasurer::start() { impl_->start(); }
const Measurement& LiveMeasurer::fallback() const { return impl_->reference(); }
const std::string& LiveMeasurer::checked() const { return impl_->checked(); }
std::string LiveMeasurer::suspicion() const {
  return impl_->started() ? std::string() : impl_->suspicion(Failing::endless);
}
std::vector<Measurement> LiveMeasurer::measure(std::span<const Point> points, const Listener& listener) {
  return impl_->measure(points, listener);
}
std::vector<Measurement> LiveMeasurer::confirm(std::span<const Point> points) {
  return impl_->confirm(points);
}
std::size_t LiveMeasurer::compilers() const { return impl_->compilers(); }
double LiveMeasurer::compiler_seconds() const { return impl_->crew().totals.compile_seconds; }
std::vector<Measurement> LiveMeasurer::compile(std::span<const Point> points) {
  return impl_->compile(points);
}
void LiveMeasurer::interrupt() noexcept { impl_->crew().interrupt(); }
bool LiveMeasurer::interrupted() const noexcept { return impl_->crew().interrupted(); }
bool LiveMeasurer::device_lost() const { return impl_->lost(); }
bool LiveMeasurer::started() const { return impl_->started(); }
double LiveMeasurer::seconds_to_confirm(std::span<const Trial* const> finalists) const {
  return impl_->seconds_to_confirm(finalists);
}
void LiveMeasurer::allow(double seconds) { impl_->crew().allow(seconds); }
LiveMeasurer::Totals LiveMeasurer::totals() const { return impl_->crew().totals; }

} // namespace kiln::tune
