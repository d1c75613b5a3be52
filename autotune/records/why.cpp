// Collects the records that a lookup considers, and explains its result in words.
#include <kiln/autotune/records/why.h>

#include <kiln/autotune/records/bucket.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

namespace kiln::tune {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string verdict_of(const Why& why) {
  if (!why.found.record) {
    if (why.neighbours.empty())
      return "nothing is known about this problem or its neighbours: the analytic model chooses the config";
    return fmt::format(
        "nothing is known about this problem: the analytic model chooses the config, and tuning starts from "
        "the configs of {} neighbour{}",
        why.neighbours.size(), why.neighbours.size() == 1 ? "" : "s");
  }
  const std::string& config = why.found.record->config;
  const char* source = name(why.found.source);
  if (!why.found.verified)
    return fmt::format(
        "{} is known from {}, but it was confirmed by older rules of verification: launches do "
        "not use it until a tuning run, which tries it first, confirms it again",
        config, source);
  if (!why.found.same_tools)
    return fmt::format("{} is used, from {}, until a few trials confirm it or find a better one: {}", config,
                       source, joined(why.tools_changed));
  if (!why.found.confirmed)
    return fmt::format(
        "{} is used, the fastest of {}, but no tuning run was completed: `kiln tune` confirms it", config,
        source);
  return fmt::format("{} is used, from {}: it was confirmed for exactly this problem, silicon and tools",
                     config, source);
}

} // namespace

Why why(Database& database, const RecordKey& key) {
  Why why;
  why.key = key;
  why.found = database.find_best(key);
  if (why.found.record) why.tools_changed = soft_differences(why.found.record->key->tools, key.tools);
  why.neighbours = database.neighbours(key);
  std::set<std::string> configs;
  for (const Record& record : database.store().load(Filter::of(key)).records) {
    ++why.trials;
    configs.insert(record.config);
    if (!record.result.ok()) ++why.failures[name(record.result.status)];
  }
  why.configs = configs.size();
  why.verdict = verdict_of(why);
  return why;
}

std::string text_of(const Why& why) {
  std::string text = fmt::format("{} {} on {} ({})\n", why.key.kernel, text_of(why.key.problem),
                                 why.key.silicon, why.key.backend);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  {}\n", why.verdict);
  if (why.found.record) {
    const Measurement& m = why.found.record->result;
    fmt::format_to(out, "  measured   {}{}\n", cli::time_text(m.seconds),
                   m.high > 0 ? fmt::format(", {} to {} with 95 % confidence", cli::time_text(m.low),
                                            cli::time_text(m.high))
                              : "");
  }
  fmt::format_to(out, "  recorded   {} trial{} of {} config{}", why.trials, why.trials == 1 ? "" : "s",
                 why.configs, why.configs == 1 ? "" : "s");
  for (const auto& [kind, count] : why.failures)
    fmt::format_to(out, ", {} {}", count, kind);
  text += '\n';
  for (const Neighbour& n : why.neighbours)
    fmt::format_to(out, "  neighbour  {} at distance {:.1f} ({} differ{}): {} in {}\n",
                   text_of(n.record->key->problem), n.distance,
                   joined(hard_differences(*n.record->key, why.key)),
                   hard_differences(*n.record->key, why.key).size() == 1 &&
                           hard_differences(*n.record->key, why.key)[0] != "sizes"
                       ? "s"
                       : "",
                   n.record->config, cli::time_text(n.record->result.seconds));
  return text;
}

std::optional<RecordKey> newest_key(Database& database, const std::string& kernel, const std::string& kind,
                                    Device device) {
  std::vector<std::shared_ptr<const Record>> known = database.wisdom();
  for (auto& best : database.store().bests(kernel))
    known.push_back(std::move(best));
  Filter filter;
  filter.kernel = kernel;
  const Loaded loaded = database.store().load(filter);
  for (const Record& record : loaded.records)
    known.push_back(std::make_shared<const Record>(record));
  const RecordKey* newest = nullptr;
  std::int64_t newest_time = 0;
  const std::string backend = backend_of(device);
  for (const auto& record : known) {
    const RecordKey& key = *record->key;
    if (key.kernel != kernel || (!kind.empty() && key.problem.kind != kind)) continue;
    const auto rank = [&](const RecordKey& k, std::int64_t time) {
      return std::pair(k.backend == backend, time);
    };
    if (newest && rank(key, record->time) <= rank(*newest, newest_time)) continue;
    newest = &key;
    newest_time = record->time;
  }
  return newest ? std::optional(*newest) : std::nullopt;
}

std::optional<RecordKey> guess_key(Database& database, const std::string& kernel, const Problem& problem,
                                   Device device) {
  const std::optional<RecordKey> newest = newest_key(database, kernel, problem.kind, device);
  if (!newest) return std::nullopt;
  Problem wanted = problem;
  if (wanted.kind.empty()) wanted.kind = newest->problem.kind;
  if (const auto bucketing = Bucketing::parse(newest->bucketing)) wanted = bucketing->apply(wanted);
  RecordKey key = make_key(kernel, newest->ir, newest->space, std::move(wanted), device);
  key.bucketing = newest->bucketing;
  return key;
}

} // namespace kiln::tune
