// Finds the failures of a run and describes them.
#include <kiln/autotune/run/refusals.h>

#include <kiln/autotune/measure/verify.h>
#include <kiln/autotune/run/check_task.h>
#include <kiln/autotune/run/task.h>

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tune {

namespace {

bool has_wrong_outputs(const Measurement& m) {
  return m.status == Status::wrong_result || m.status == Status::not_a_number;
}

struct Failure {
  Point point;
  const Measurement* result;
};

// Returns the failures in the order of measurement, the first of each point.
template <class F> std::vector<Failure> failures_of(const Tuning& tuning, const F& counts) {
  std::vector<Failure> failures;
  const auto add = [&](const Point& point, const Measurement& result) {
    const bool known = std::any_of(failures.begin(), failures.end(),
                                   [&](const Failure& other) { return other.point == point; });
    if (counts(result) && !known) failures.push_back({point, &result});
  };
  for (const Trial& trial : tuning.search.trials)
    add(trial.point, trial.result);
  for (std::size_t i = 0; i < tuning.search.confirmed.size(); ++i)
    add(tuning.search.finalists[i], tuning.search.confirmed[i]);
  return failures;
}

const char* const how_to_declare =
    "if such outputs are right, say so in TunedOptions::outputs for this parameter: .relative and .absolute "
    "(a tolerance), .share (how many elements may differ), .unordered (any order), .ignored (scratch memory) "
    "or "
    ".compare (a function of yours)";

// For a config that is right on the given inputs.
const char* const how_to_keep = "; if the kernel relies on a property of its inputs that they lose there, "
                                "such as their order, name their "
                                "parameters in TunedOptions::as_given (TunableInput::as_given for kiln tune)";

// What to declare if the outputs are right. Nothing if a function of the user says that they are wrong.
std::string remedy_for(const Measurement& m) {
  const bool by_function = m.error.find("the function that compares") != std::string::npos;
  if (!has_wrong_outputs(m)) return {};
  const bool varied = std::any_of(std::begin(all_twists), std::end(all_twists), [&](Twist twist) {
    return m.error.starts_with(std::string("with ") + words_of(twist));
  });
  return std::string(varied ? how_to_keep : "") + (by_function ? "" : std::string("; ") + how_to_declare);
}

} // namespace

std::string first_failure(const Tuning& tuning) {
  const auto failures = failures_of(tuning, [](const Measurement& m) { return !m.ok(); });
  if (failures.empty()) return {};
  const auto by_default = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
    return tuning.fallback && failure.point == *tuning.fallback;
  });
  const Failure& first = by_default == failures.end() ? failures.front() : *by_default;
  return fmt::format("{} {{{}}}: {}: {}{}",
                     by_default == failures.end() ? "the first that failed is" : "the default",
                     tuning.space->text(first.point), name(first.result->status), first.result->error,
                     remedy_for(*first.result));
}

std::string refusals_of(const Tuning& tuning) {
  const auto wrong = failures_of(tuning, has_wrong_outputs);
  if (wrong.empty()) return {};
  const Measurement& first = *wrong.front().result;
  return fmt::format("{} of {} configs {} refused because of {} outputs; the first is {{{}}}: {}{}",
                     wrong.size(), tuning.search.trials.size(), wrong.size() == 1 ? "was" : "were",
                     wrong.size() == 1 ? "its" : "their", tuning.space->text(wrong.front().point),
                     first.error, remedy_for(first));
}

std::vector<std::string> warnings_of(const Tuning& tuning) {
  std::vector<std::string> warnings;
  if (std::string ignored = warning_of_ignored(*tuning.task); !ignored.empty())
    warnings.push_back(std::move(ignored));
  if (tuning.search.fell_back)
    warnings.push_back(fmt::format(
        "the search, which was limited to {:.3g} s, ended before the fastest config was verified, so "
        "that the default {{{}}} is used; give it more time (TuneOptions::seconds)",
        tuning.budget_seconds, tuning.space->text(*tuning.search.best)));
  return warnings;
}

} // namespace kiln::tune
