// Times the finalists in alternation and verifies the fastest on other inputs.
#include <kiln/autotune/measure/live_measurer_impl.h>

#include <kiln/autotune/measure/drift.h>
#include <kiln/autotune/measure/loaded_candidate.h>
#include <kiln/dsl/ir/parser.h>

#include <algorithm>

namespace kiln::tune {

struct LiveMeasurer::Impl::Finalists {
  std::vector<PendingCandidate> candidates;
  std::vector<Measurement> results;
  std::vector<int> strikes;
  std::string reference; // the config with which others are compared
  bool interrupted = false;

  std::vector<std::size_t> waiting() const {
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (!candidates[i].done) which.push_back(i);
    return which;
  }
  void end(std::size_t i, Measurement result) {
    candidates[i].done = true;
    results[i] = std::move(result);
  }
  // A finalist has run before, so one failure may be by chance; but a config that is wrong once is wrong,
  // except the reference, which differs only from itself.
  static constexpr int most_strikes = 2;
  void strike(std::size_t i, const Measurement& result) {
    const bool wrong = (result.status == Status::wrong_result || result.status == Status::not_a_number) &&
                       candidates[i].message.value("config", "") != reference;
    if (++strikes[i] == most_strikes || wrong) end(i, result);
  }
};

// Times all waiting finalists once. Returns false if one of them failed; the others are then to be timed
// again, without it or giving it a second chance.
bool LiveMeasurer::Impl::time_interleaved(Finalists& f) {
  const std::vector<std::size_t> which = f.waiting();
  Message messages = Message::array();
  for (std::size_t i : which) {
    Message message = f.candidates[i].message;
    if (std::string fault = draw_fault(); !fault.empty()) message["fault"] = fault;
    if (message.value("fault", "") == "device") device_fault_ = true;
    messages.push_back(std::move(message));
  }
  if (device_fault_) runner_.reset();
  if (!runner_ready()) {
    f.interrupted = !lost_;
    for (std::size_t i : which)
      f.end(i, failed(Status::device_lost, lost_error_));
    return true;
  }
  const double limit = compilers_.limit() + run_limit();
  const double timing = 2 * options_.confirm_seconds * static_cast<double>(which.size()) + limit;
  std::size_t stage = 0;
  Answer answer = crew_.request(*runner_,
                                {{"do", "confirm"},
                                 {"candidates", std::move(messages)},
                                 {"seconds", options_.confirm_seconds},
                                 {"seconds_allowed", limit * static_cast<double>(which.size()) + timing}},
                                limit);
  while (answer.says_stage()) {
    const Message& number = answer.message.at("stage");
    stage = number.is_number_unsigned() ? number.get<std::size_t>() : which.size();
    answer = crew_.await(*runner_, stage < which.size() ? limit : timing);
  }
  if (answer.kind == Answer::Kind::interrupted) {
    runner_.reset();
    f.interrupted = true;
    return true;
  }
  const Message results = answer.message.is_object() ? answer.message.value("results", Message()) : Message();
  const bool answered = results.is_array() && !results.empty() && results.size() <= which.size();
  if (answer.kind != Answer::Kind::message || !answered) {
    const Measurement m = answer.kind == Answer::Kind::message
                              ? failed(Status::crash, answer.text("error", "no answer"))
                              : result_of_end(answer, false);
    if (stage < which.size())
      f.strike(which[stage], m);
    else // it happened while all were timed
      for (std::size_t i : which)
        f.strike(i, m);
    if (answer.kind == Answer::Kind::late)
      crew_.kill(runner_);
    else
      runner_.reset();
    return false;
  }
  const Measurement last = measurement_from(results.back());
  if (!last.ok() || results.size() < which.size()) { // the worker stops at the first failure
    f.strike(which[results.size() - 1], last.ok() ? failed(Status::crash, "no answer") : last);
    runner_.reset();
    return false;
  }
  std::vector<Measurement> timed;
  for (const Message& result : results)
    timed.push_back(measurement_from(result));
  const double reference_seconds = credible_reference(timed, reference_.seconds);
  for (std::size_t i = 0; i < which.size(); ++i) {
    Measurement& m = timed[i];
    crew_.totals.run_seconds += m.run_seconds;
    remove_drift(m, reference_seconds);
    note(m);
    f.end(which[i], std::move(m));
  }
  return true;
}

// Returns those of the inputs that this kernel has.
std::vector<Twist> LiveMeasurer::Impl::variations() const {
  const auto kernel = ir::parse(reference_message_.at("ir").get<std::string>(), "fallback");
  std::vector<Twist> found;
  for (Twist twist : all_twists)
    if (applies(twist, workload_.arguments, workload_.outputs, *kernel)) found.push_back(twist);
  return found;
}

// Checks a finalist on inputs that no trial had. If it is wrong there, `result` gets the error.
LiveMeasurer::Impl::Verified LiveMeasurer::Impl::verify_finalist(const PendingCandidate& candidate,
                                                                 Measurement& result) {
  int verified = 0;
  const int most = static_cast<int>(variations_.size());
  for (int i = 0; i < most; ++i) {
    const Twist twist = variations_[static_cast<std::size_t>(i)];
    if (!runner_ready()) return lost_ ? Verified::yes : Verified::interrupted; // keep what is known
    const double limit = compilers_.limit() + run_limit();
    Answer answer = crew_.request(*runner_,
                                  {{"do", "verify"},
                                   {"candidate", candidate.message},
                                   {"twist", name(twist)},
                                   {"seconds", std::min(std::max(0.0, left()) / (most - i), 1e9)},
                                   {"seconds_allowed", 2 * limit}},
                                  limit);
    const bool reference_ran = answer.says_stage();
    if (reference_ran) answer = crew_.await(*runner_, limit);
    if (answer.kind != Answer::Kind::message) runner_.reset();
    if (answer.kind == Answer::Kind::interrupted) return Verified::interrupted;
    Measurement m;
    if (answer.kind == Answer::Kind::message && answer.message.contains("status"))
      m = measurement_from(answer.message);
    else if (answer.kind != Answer::Kind::message && reference_ran)
      m = result_of_end(answer, false);
    else
      continue; // skipped, or the reference itself failed, so there is nothing to compare with
    if (!m.ok()) {
      result.status = m.status;
      result.error = std::string("with ") + words_of(twist) + ": " + m.error;
      return Verified::no;
    }
    ++verified;
  }
  result.facts["verified"] = verified;
  return Verified::yes;
}

void LiveMeasurer::Impl::verify_fastest(Finalists& f) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < f.results.size(); ++i)
    if (f.results[i].ok()) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return f.results[a].seconds < f.results[b].seconds; });
  for (std::size_t i : order)
    if (const Verified verified = verify_finalist(f.candidates[i], f.results[i]); verified != Verified::no) {
      f.interrupted = verified == Verified::interrupted;
      return;
    }
}

std::vector<Measurement> LiveMeasurer::Impl::confirm(std::span<const Point> points) {
  start();
  allow_rest();
  announce("confirming " + std::to_string(points.size()) + (points.size() == 1 ? " config" : " configs"));
  Finalists f;
  f.results.resize(points.size());
  f.strikes.resize(points.size());
  f.reference = fallback_.to_string();
  for (std::size_t i = 0; i < points.size(); ++i) {
    f.candidates.push_back(make_candidate(space_.config(points[i]), true));
    if (f.candidates[i].done) f.results[i] = f.candidates[i].result;
  }
  bool timed = f.waiting().empty();
  const int attempts = Finalists::most_strikes * static_cast<int>(points.size()) + 2;
  for (int i = 0; i < attempts && !timed; ++i)
    timed = time_interleaved(f) || f.waiting().empty();
  if (f.interrupted) return {};
  for (std::size_t i : f.waiting())
    f.end(i, failed(Status::crash, "it could not be confirmed"));
  if (!lost_) verify_fastest(f);
  if (f.interrupted) return {};
  return std::move(f.results);
}

// Each finalist is checked and timed about as long as in its trial. The fastest is then run next to the
// reference on each variation of the inputs, which takes about as long as the reference took without being
// timed.
double LiveMeasurer::Impl::seconds_to_confirm(std::span<const Trial* const> finalists) const {
  constexpr double least_share = 0.25; // for checking, if timing was shorter than it may be
  const double checking = std::max({reference_.run_seconds - options_.most_seconds,
                                    least_share * reference_.run_seconds, 4 * reference_.seconds});
  double seconds = static_cast<double>(variations_.size()) * checking + (runner_ ? 0 : setup_seconds_);
  for (const Trial* finalist : finalists)
    seconds += finalist->result.run_seconds + options_.confirm_seconds;
  return seconds;
}

} // namespace kiln::tune
