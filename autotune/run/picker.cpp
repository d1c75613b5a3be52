// Chooses a config for a launch without measuring.
#include <kiln/autotune/records/bucket.h>
#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>

#include <algorithm>

namespace kiln::tune {

namespace {

// The number of configs that the analytic model evaluates while a launch waits: about a tenth of a second.
constexpr std::size_t most_looked_at = 256;
// A config that was not measured is preferred to the seed only if the model predicts it to be this much
// faster.
constexpr double trusted_gain = 1.5;

Config seed_of(const Task& task, const BoundSpace& space) {
  const std::vector<Point> seeds = space.seeds();
  if (!seeds.empty()) return space.config(seeds.front());
  if (task.space.seeds().empty())
    throw UserError("kernel \"" + task.kernel +
                    "\": its space has no seed; give it a config that works (Space::seed)");
  return space.config(task.space.seeds().front());
}

Picked analytic(const Task& task, BoundSpace& space) {
  Prior prior(task, space, machine_of(task.device, RecordStore::standard_folder(), false));
  const std::vector<Point> best = prior.best(some_points(space, most_looked_at), 1);
  if (best.empty()) return {seed_of(task, space), "the seed"};
  // A seed is known to work well, while the model is sometimes off by a third: for row kernels it prefers
  // tiles that are too tall.
  for (const Point& seed : space.seeds())
    if (prior(seed) <= prior(best.front()) * trusted_gain) return {space.config(seed), "the seed"};
  return {space.config(best.front()), "the analytic model"};
}

// Explains the usual reason why wisdom files lack a config: they were made for another machine.
std::string of_other_silicon(Database& known, const RecordKey& key) {
  for (const auto& record : known.wisdom())
    if (record->key->kernel == key.kernel && record->key->problem == key.problem &&
        record->key->silicon != key.silicon)
      return "; there is one for other silicon, " + record->key->silicon + ", and this is " + key.silicon;
  return {};
}

// Mode `online` searches one problem of each bucket.
bool shares_bucket(const RecordKey& a, const RecordKey& b) {
  const Bucketing buckets = Bucketing::hybrid();
  return a.silicon == b.silicon && a.backend == b.backend && a.ir == b.ir &&
         a.code_generation == b.code_generation && buckets.apply(a.problem) == buckets.apply(b.problem);
}

const char* words_of(Source source) {
  return source == Source::user      ? "the user's wisdom"
         : source == Source::project ? "the program's wisdom"
                                     : "the database";
}

} // namespace

std::optional<Picked> pick_known(const Task& task, Mode mode) {
  const BoundSpace space = task.bound_space();
  const RecordKey key = task.key();
  Database& known = Database::standard();
  const auto look_up = [&](const RecordKey& wanted) {
    return mode == Mode::pinned ? known.find_wisdom(wanted) : known.find_best(wanted);
  };
  // A config that was confirmed by older rules may be wrong. A tuning run tries it first.
  // A record may name values that the space no longer has, if the space has changed since.
  const auto picked = [&](const Lookup& found) -> std::optional<Picked> {
    const auto point =
        found && found.verified ? point_of(task.space.knobs(), found.record->config) : std::nullopt;
    if (!point || !space.contains(*point)) return std::nullopt;
    return Picked{space.config(*point), words_of(found.source), true, !found.trusted()};
  };
  const Lookup found = look_up(key);
  if (const auto answer = picked(found)) return *answer;
  if (task.deterministic) { // the best config of the full search may have the seed's order of additions too
    Task any = task;
    any.deterministic = false;
    if (const auto answer = picked(look_up(any.key()))) return *answer;
  }
  if (mode == Mode::pinned && found && !found.verified)
    throw UserError(
        "kernel \"" + task.kernel + "\": the config for " + task.recorded_problem().to_string() + " on " +
        to_string(task.device) +
        " in a wisdom file was confirmed by older rules of verification, and the tuner's mode is "
        "pinned; tune it here and add it to a file again (kiln records export), or choose another "
        "mode (KILN_TUNE)");
  if (mode == Mode::pinned)
    throw UserError("kernel \"" + task.kernel + "\" has no config for " +
                    task.recorded_problem().to_string() + " on " + to_string(task.device) +
                    " in a wisdom file, and the tuner's mode is pinned" + of_other_silicon(known, key) +
                    "; tune it here and add it to a file (kiln records export), or choose another mode "
                    "(KILN_TUNE)");
  for (const Neighbour& neighbour : found.neighbours) {
    // A config of a close problem is more reliable than the model.
    const RecordKey& near = *neighbour.record->key;
    const auto point = point_of(task.space.knobs(), neighbour.record->config);
    const bool verified = near.tools.verification == key.tools.verification;
    if (verified && (neighbour.distance <= 1 || shares_bucket(near, key)) && point && space.contains(*point))
      return Picked{space.config(*point), std::string(words_of(neighbour.source)) + ", for " +
                                              neighbour.record->key->problem.to_string()};
  }
  return std::nullopt;
}

Picked pick(const Task& task, Mode mode) {
  BoundSpace space = task.bound_space();
  if (mode == Mode::off) return {seed_of(task, space), "the seed"};
  if (mode == Mode::analytic) return analytic(task, space);
  if (auto known = pick_known(task, mode)) return *std::move(known);
  Picked picked = analytic(task, space);
  // A config that older rules confirmed is not used, but only has to be confirmed again.
  picked.stale = static_cast<bool>(Database::standard().find_best(task.key()));
  return picked;
}

} // namespace kiln::tune
