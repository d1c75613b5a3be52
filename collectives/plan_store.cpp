// Implements the look-up and the storing of plans, and the agreement of ranks on what was found.
#include <kiln/collectives/plan_store.h>

#include <kiln/autotune/records/plan_record.h>
#include <kiln/collectives/gather_numbers.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/base/options.h>
#include <kiln/jit/runtime/cpu/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace kiln::collectives {
namespace {

using tune::Mode;

// Increase it when an engine changes in speed, so that plans are measured again.
constexpr int engine_version = 1;

enum class Decision : std::int64_t { forecast, measure, take_stored, report_missing };

// What rank 0 found. The plan has no schedule yet.
struct Found {
  Decision decision = Decision::forecast;
  Plan plan = {};
};

bool measures(Mode mode) { return mode == Mode::tune || mode == Mode::online; }

Nanoseconds nanoseconds(double seconds) {
  return seconds < 0 ? -1 : static_cast<Nanoseconds>(std::llround(seconds * 1e9));
}
double seconds(Nanoseconds t) { return t < 0 ? -1 : static_cast<double>(t) / 1e9; }

// The link, in a few words however many edges it has.
std::string text_of(const LinkModel& link) {
  if (link.is_free()) return "copies";
  std::string text = fmt::format("link {} B/s {} ns", link.bytes_per_second, link.latency);
  if (link.jitter) text += fmt::format(", jitter {} ns seed {}", link.jitter, link.seed);
  if (link.edges.empty()) return text;
  cache::KeyBuilder edges;
  for (const LinkModel::Edge& e : link.edges)
    edges.add(fmt::format("{} {} {} {}", e.from, e.to, e.bytes_per_second, e.latency));
  return text + fmt::format(", {} edges {}", link.edges.size(), to_string(edges.key()).substr(0, 12));
}

// Nothing if the plan lists other schedules, because it is from a version of Kiln that had others, or was
// edited.
std::optional<Plan> plan_from(const tune::StoredPlan& stored, const ProductShape& shape) {
  Plan plan;
  for (const Candidate& candidate : candidates_of(shape)) {
    const auto at = std::ranges::find(stored.options, candidate.text(), &tune::StoredPlan::Option::name);
    if (at == stored.options.end()) return std::nullopt;
    if (at == stored.options.begin() + static_cast<std::ptrdiff_t>(stored.chosen))
      plan.chosen = plan.options.size();
    plan.options.push_back({candidate, nanoseconds(at->forecast), nanoseconds(at->measured)});
  }
  if (plan.options.size() != stored.options.size()) return std::nullopt;
  plan.computation = nanoseconds(stored.computation);
  plan.communication = nanoseconds(stored.communication);
  plan.measured_at = stored.time;
  return plan;
}

Found look_up(const tune::RecordKey& key, const ProductShape& shape, Mode mode, tune::Database& database) {
  if (mode == Mode::off || mode == Mode::analytic) return {};
  const tune::Lookup found = mode == Mode::pinned ? database.find_wisdom(key) : database.find_best(key);
  // As for configs: with other versions of the tools, a plan is measured again, if the mode measures at all.
  if (found.record && (found.trusted() || !measures(mode))) {
    const std::optional<tune::StoredPlan> stored = tune::plan_of(*found.record);
    if (auto plan = stored ? plan_from(*stored, shape) : std::nullopt)
      return {Decision::take_stored, std::move(*plan)};
    log_warning_once(
        fmt::format("the stored plan of {} is ignored, since {}", shape.text(),
                    stored ? "it lists other schedules than this version of Kiln" : "its record is damaged"));
  }
  return {measures(mode)         ? Decision::measure
          : mode == Mode::pinned ? Decision::report_missing
                                 : Decision::forecast};
}

// Gives all ranks what rank 0 found, as numbers: the decision, the choice, three times, and two times of each
// option.
Found agree(Communicator& comm, const ProductShape& shape, const Found& found) {
  constexpr std::size_t head = 5;
  const std::vector<Candidate> candidates = candidates_of(shape);
  const std::size_t count = head + 2 * candidates.size();
  std::vector<std::int64_t> own(count), all(count * static_cast<std::size_t>(comm.size()));
  own[0] = static_cast<std::int64_t>(found.decision);
  own[1] = static_cast<std::int64_t>(found.plan.chosen);
  own[2] = found.plan.computation, own[3] = found.plan.communication, own[4] = found.plan.measured_at;
  for (std::size_t i = 0; i < found.plan.options.size(); ++i) {
    own[head + 2 * i] = found.plan.options[i].forecast;
    own[head + 2 * i + 1] = found.plan.options[i].measured;
  }
  gather_numbers(comm, "plan", {}, own.data(), all.data(),
                 static_cast<std::int64_t>(count * sizeof(std::int64_t)));
  Found agreed{static_cast<Decision>(all[0])};
  if (agreed.decision != Decision::take_stored) return agreed;
  Plan& plan = agreed.plan;
  plan.shape = shape;
  plan.origin = Plan::Origin::stored;
  plan.computation = all[2], plan.communication = all[3], plan.measured_at = all[4];
  for (std::size_t i = 0; i < candidates.size(); ++i)
    plan.options.push_back({candidates[i], all[head + 2 * i], all[head + 2 * i + 1]});
  plan.choose(static_cast<std::size_t>(all[1]));
  return agreed;
}

void store(const tune::RecordKey& key, const Plan& plan, tune::Database& database) {
  tune::StoredPlan stored{.options = {},
                          .chosen = plan.chosen,
                          .computation = seconds(plan.computation),
                          .communication = seconds(plan.communication),
                          .time = plan.measured_at};
  for (const Plan::Option& o : plan.options)
    stored.options.push_back({o.candidate.text(), seconds(o.forecast), seconds(o.measured)});
  const tune::Record record = tune::record_of_plan(key, stored);
  database.store().append(record);
  database.publish(record); // if that fails, there is a warning, and this process still uses it
}

} // namespace

Mode default_plan_mode() { return read_environment().tune.empty() ? Mode::tune : tune::default_mode(); }

tune::RecordKey plan_key(const Communicator& comm, const ProductShape& shape) {
  cache::KeyBuilder schedules;
  schedules.add(engine_version);
  for (const Candidate& candidate : candidates_of(shape))
    schedules.add(candidate.text());
  const EngineInfo engine = comm.engine();
  const tune::Problem problem{.sizes = {{"ranks", comm.size()}, {"cpus", ThreadPool::shared().size()}},
                              .kind = shape.text(),
                              .key = fmt::format("{}, {}", engine.name, text_of(engine.link))};
  return tune::make_key("collective_plan", {}, schedules.key(), problem, comm.device());
}

Plan plan_by_mode(Communicator& comm, const ProductShape& shape, const Trial& trial, Mode mode,
                  tune::Database& database) {
  if (comm.size() == 1) return plan_by_measurement(comm, shape, trial); // there is nothing to measure
  const tune::RecordKey key = plan_key(comm, shape);
  Found found;
  if (comm.rank() == 0) found = look_up(key, shape, mode, database);
  found = agree(comm, shape, found);
  switch (found.decision) {
  case Decision::take_stored: return std::move(found.plan);
  case Decision::forecast: break;
  case Decision::report_missing:
    throw UserError(
        fmt::format("no wisdom file has a plan for {} on {} ranks, and the mode `pinned` takes no "
                    "other; measure one in the mode `tune`, and export it with `kiln records "
                    "export --wisdom`",
                    shape.text(), comm.size()));
  case Decision::measure: {
    Plan plan = plan_by_measurement(comm, shape, trial);
    if (comm.rank() == 0) store(key, plan, database);
    return plan;
  }
  }
  const EngineInfo engine = comm.engine();
  return plan_by_forecast(shape, engine.link, engine.machine);
}

} // namespace kiln::collectives
