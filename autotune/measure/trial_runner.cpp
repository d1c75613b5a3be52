// Checks candidates against the reference and times them.
#include <kiln/autotune/measure/clock.h>
#include <kiln/autotune/measure/trial_runner.h>

#include <kiln/autotune/measure/inject.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr int anchor_every = 8; // trials
// The part of the time for timing a config that looking for rare races may add.
constexpr double repeating_share = 0.1;

// Returns the CPU time that the hypervisor gave to other virtual machines, summed over all CPUs, since boot.
double stolen_seconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
  in >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft >> stolen;
  return in ? stolen / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

// The smallest share of an output that can be compared.
double least_share(const std::vector<OutputComparison>& outputs) {
  double least = 1;
  for (const OutputComparison& output : outputs)
    if (output.elements > 0) least = std::min(least, output.share());
  return least;
}

} // namespace

void choose_inputs(Situation& situation, const std::function<const Checker&(const Situation&)>& make) {
  bool values_may_help = false;
  const Checker& with_usual = make(situation);
  const std::string usual = with_usual.incomparable(&values_may_help);
  const double share = least_share(with_usual.comparable());
  if (usual.empty() && share >= OutputComparison::few) return;
  if (!usual.empty() && !values_may_help) throw UserError(usual);
  situation.positive = true;
  const Checker& with_positive = make(situation);
  const bool works = with_positive.incomparable().empty();
  if (works && (!usual.empty() || least_share(with_positive.comparable()) > share)) return;
  if (!usual.empty()) throw UserError(usual);
  situation.positive = false;
  make(situation);
}

TrialRunner::TrialRunner(Situation situation, LoadedCandidate reference,
                         std::optional<LoadedCandidate> oracle, double seconds,
                         const std::function<void(const std::string&)>& running)
    : situation_(std::move(situation)), reference_(std::move(reference)), oracle_(std::move(oracle)),
      stream_(situation_.device) {
  if (oracle_) {
    situation_.default_rounding = rounding_of(reference_.kernel->recorded());
    situation_.default_rounding_inside = rounding_inside(reference_.kernel->recorded());
  }
  run_reference(seconds, running);
}

// Allocates the arrays of the current situation.
void TrialRunner::set_up() {
  checker_.reset();
  timed_.clear();
  inputs_ = std::make_unique<Inputs>(situation_, reference_.kernel->recorded());
  const Device device = situation_.device;
  const std::int64_t bytes = inputs_->plan.bytes(), memory = device.properties().memory_bytes;
  const int sets = memory > 0 && bytes > memory / 8 ? 1 : sets_for(situation_.timing, device, bytes);
  timed_.reserve(static_cast<std::size_t>(sets));
  for (int i = 0; i < sets; ++i) {
    timed_.emplace_back(device, inputs_->plan, situation_.arguments, Surroundings::bytes);
    timed_.back().upload_inputs(stream_, inputs_->contents);
  }
  const bool apart = device.is_cpu() && has_room_apart(device, bytes);
  checker_ =
      std::make_unique<Checker>(situation_, *inputs_, right(), stream_, apart ? nullptr : &timed_.front());
}

void TrialRunner::run_reference(double seconds, const std::function<void(const std::string&)>& running) {
  const auto begin = Clock::now();
  reference_result_.facts = facts_of(*reference_.compiled(situation_));
  reference_result_.compile_seconds = seconds_since(begin);
  constexpr int ahead = 4; // two for the check, one to warm up and at least one to be timed
  Checker::Launched launched;
  if (oracle_) running(situation_.right); // a function on the host is called after the default was launched
  choose_inputs(situation_, [&](const Situation&) -> const Checker& {
    set_up();
    launched =
        checker_->run_reference([&](double once) { return seconds_since(begin_) + ahead * once < seconds; });
    return *checker_;
  });
  if (oracle_) running("the default");
  if (oracle_ || situation_.host_reference) {
    Checker::Checked checked = checker_->check(reference_);
    if (checked.verdict.kind != Verdict::Kind::right)
      throw UserError("it differs from " + situation_.right + ": " + checked.verdict.error);
    reference_result_.outputs = std::move(checked.outputs);
  } else {
    reference_result_.outputs = checker_->comparable();
  }
  if (launched.launches > 1) look_at_ignored();
  if (launched.launches > 1) {
    Timer timer(stream_, timed_, inputs_->contents, situation_.timing);
    fill_in(reference_result_, timer.time(reference_.ready(), 0), 0);
  } else {
    fill_in(reference_result_,
            {.seconds = launched.seconds,
             .interval = {launched.seconds, launched.seconds},
             .launches = 1,
             .samples = 1},
            0);
  }
  anchor_.add(reference_result_.seconds);
  reference_result_.relative = 1;
  reference_result_.run_seconds = seconds_since(begin) - reference_result_.compile_seconds;
}

void TrialRunner::look_at_ignored() {
  if (!checker_->has_ignored()) return;
  situation_.keeps_ignored = true;
  try {
    situation_.keeps_ignored = checker_->check(reference_).verdict.kind == Verdict::Kind::right;
  } catch (const Error&) { // an assertion of the kernel
    situation_.keeps_ignored = false;
  }
}

void TrialRunner::time_anchor() {
  Timer timer(stream_, timed_, inputs_->contents, situation_.timing);
  const int launches = timer.launches_of_sample(reference_.ready());
  std::vector<double> samples;
  const auto begin = Clock::now();
  constexpr std::size_t most = 9;
  constexpr double most_seconds = 0.1;
  do
    samples.push_back(timer.sample(reference_.ready(), launches).seconds);
  while (samples.size() < most && seconds_since(begin) < most_seconds);
  anchor_.add(median_of(samples));
  since_anchor_ = 0;
}

void TrialRunner::fill_in(Measurement& m, const Timing& timing, double reference_seconds) {
  m.seconds = timing.seconds;
  m.low = timing.interval.low;
  m.high = timing.interval.high;
  m.launches = timing.launches;
  if (reference_seconds > 0) m.relative = timing.seconds / reference_seconds;
  if (timing.quickest > 0) m.facts["quickest"] = timing.quickest;
  if (timing.disturbed) m.facts["disturbed"] = timing.disturbed;
  if (timing.dropped) m.facts["dropped"] = 1;
}

Measurement TrialRunner::check(const LoadedCandidate& c, const std::function<void()>& stage) {
  Measurement m;
  const auto begin = Clock::now();
  try {
    m.facts = facts_of(*c.compiled(situation_));
    m.compile_seconds = seconds_since(begin);
  } catch (...) {
    m = failure(Status::compile_error);
    m.compile_seconds = seconds_since(begin);
    return m;
  }
  stage();
  try {
    inject_before_launching(c.fault);
    Checker::Checked checked = checker_->check(c);
    const Measurement outcome = outcome_of(checked.verdict);
    m.status = outcome.status;
    m.error = outcome.error;
    m.outputs = std::move(checked.outputs);
  } catch (...) {
    const double seconds = m.compile_seconds;
    m = failure(Status::launch_error);
    m.compile_seconds = seconds;
  }
  return m;
}

void TrialRunner::look_for_races(const LoadedCandidate& c, Measurement& m, double seconds) {
  if (c.config == reference_.config) return;
  const Measurement outcome = outcome_of(checker_->repeat(c, seconds));
  if (outcome.ok()) return;
  m.status = outcome.status;
  m.error = outcome.error;
}

Measurement TrialRunner::run(const LoadedCandidate& c, double best, const std::function<void()>& stage) {
  const auto begin = Clock::now();
  const double stolen = stolen_seconds();
  if (++since_anchor_ >= anchor_every) time_anchor();
  Measurement m = check(c, stage);
  if (m.ok()) {
    try {
      TimingPlan plan = situation_.timing;
      if (c.fault == "noise") plan.noise = 0.25;
      Timer timer(stream_, timed_, inputs_->contents, plan);
      const auto timed = Clock::now();
      Timing timing = timer.time(c.ready(), best * anchor_.recent());
      // Other load may have begun since the reference was timed, so time it again before dropping a
      // candidate.
      constexpr double beyond_drift = 4;
      if (timing.dropped && timing.seconds < beyond_drift * plan.drop * best * anchor_.recent()) {
        time_anchor();
        timing = timer.time(c.ready(), best * anchor_.last());
      }
      fill_in(m, timing, anchor_.recent());
      if (!timing.dropped) look_for_races(c, m, repeating_share * seconds_since(timed));
      // Check only one set, since all are equal.
      if (std::string damage = timed_.front().damage(stream_, inputs_->contents); m.ok() && !damage.empty()) {
        m.status = Status::wrong_result;
        m.error = damage;
      }
    } catch (...) {
      m = failure(Status::launch_error);
    }
  }
  if (const double since = stolen_seconds() - stolen; since > 0) m.facts["stolen_seconds"] = since;
  m.run_seconds = seconds_since(begin) - m.compile_seconds;
  return m;
}

std::vector<Measurement> TrialRunner::confirm(const std::vector<LoadedCandidate>& candidates, double seconds,
                                              const std::function<void(std::size_t)>& stage) {
  std::vector<Measurement> results;
  std::vector<Candidate> right;
  std::size_t reference = candidates.size(); // its index
  for (const LoadedCandidate& c : candidates) {
    stage(results.size());
    if (c.config == reference_.config) reference = results.size();
    results.push_back(check(c, [] {}));
    if (!results.back().ok()) return results;
    right.push_back(c.ready());
  }
  // Compare with the reference timed in the same rounds, not earlier: a machine whose CPUs sometimes share a
  // core may be twice as fast a moment later.
  if (reference == candidates.size()) right.push_back(reference_.ready());
  stage(candidates.size());
  const auto begin = Clock::now();
  Timer timer(stream_, timed_, inputs_->contents, situation_.timing);
  const std::vector<Timing> timings = timer.interleaved(right, seconds);
  anchor_.add(timings[reference].seconds);
  since_anchor_ = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Measurement& m = results[i];
    fill_in(m, timings[i], timings[reference].seconds);
    m.run_seconds = seconds_since(begin) / static_cast<double>(right.size());
    look_for_races(candidates[i], m, repeating_share * seconds);
    if (m.ok()) continue;
    results.resize(i + 1); // it may have corrupted memory
    break;
  }
  return results;
}

} // namespace kiln::tune
