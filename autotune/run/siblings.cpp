// Converts records of the database to starting points and training data for a search.
#include <kiln/autotune/run/siblings.h>

#include <kiln/autotune/records/database.h>
#include <kiln/autotune/run/task.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::tune {

namespace {

constexpr std::size_t most_siblings = 2000;

// Adds the records of one problem. Throws UserError if the task cannot be made for that problem.
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

} // namespace

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

SiblingRecords siblings_of(const Task& task, const BoundSpace& space, const Machine& machine) {
  SiblingRecords found;
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
    } catch (const Error&) { // its arguments cannot be derived from its sizes, or are from another version
    }
  }
  return found;
}

} // namespace kiln::tune
