// Converts plans to records and back.
#include <kiln/autotune/records/plan_record.h>

#include <algorithm>
#include <string_view>

namespace kiln::tune {
namespace {

constexpr std::string_view forecast_prefix = "forecast ", measured_prefix = "measured ";
constexpr double longest = 86'400; // seconds

bool is_time(double seconds) { return seconds >= 0 && seconds <= longest; }

// Returns the fact, or nothing if it is missing.
std::optional<double> fact(const Record& record, const std::string& name) {
  const auto found = record.result.facts.find(name);
  return found == record.result.facts.end() ? std::nullopt : std::optional(found->second);
}

} // namespace

Record record_of_plan(const RecordKey& key, const StoredPlan& plan) {
  const StoredPlan::Option& chosen = plan.options[plan.chosen];
  Record record;
  record.key = std::make_shared<const RecordKey>(key);
  record.config = chosen.name;
  record.result.seconds = chosen.measured;
  record.predicted = chosen.forecast;
  record.confirmed = true; // the options were measured in turn
  record.source = "plan";
  record.time = plan.time;
  auto& facts = record.result.facts;
  facts["computation"] = plan.computation;
  facts["communication"] = plan.communication;
  for (const StoredPlan::Option& option : plan.options) {
    facts[std::string(forecast_prefix) + option.name] = option.forecast;
    facts[std::string(measured_prefix) + option.name] = option.measured;
  }
  return record;
}

std::optional<StoredPlan> plan_of(const Record& record) {
  const auto computation = fact(record, "computation"), communication = fact(record, "communication");
  if (!is_of_plan(*record.key) || !record.result.ok() || !computation || !communication) return std::nullopt;
  StoredPlan plan{.computation = *computation, .communication = *communication, .time = record.time};
  if (!is_time(plan.computation) || !is_time(plan.communication)) return std::nullopt;
  for (const auto& [name, forecast] : record.result.facts) {
    if (!name.starts_with(forecast_prefix)) continue;
    std::string option = name.substr(forecast_prefix.size());
    const std::optional<double> measured = fact(record, std::string(measured_prefix) + option);
    if (!is_time(forecast) || !measured || !(*measured == -1 || is_time(*measured))) return std::nullopt;
    plan.options.push_back({std::move(option), forecast, *measured});
  }
  const auto chosen = std::ranges::find(plan.options, record.config, &StoredPlan::Option::name);
  if (chosen == plan.options.end() || chosen->measured < 0) return std::nullopt;
  plan.chosen = static_cast<std::size_t>(chosen - plan.options.begin());
  return plan;
}

} // namespace kiln::tune
