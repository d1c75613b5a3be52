// Implements tuning tasks and the analytic model of a task.
#include <kiln/autotune/run/task.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

// A kernel reads sizes while it is recorded if recording throws without them or marks the result as
// config-specific.
bool reads_sizes(const Task& task) {
  try {
    return task.recorded({})->config_specific;
  } catch (const UserError&) {
    return true;
  }
}

} // namespace

bool is_empty(const Problem& problem) {
  return std::any_of(problem.sizes.begin(), problem.sizes.end(),
                     [](const auto& size) { return size.second == 0; });
}

std::shared_ptr<ir::Kernel> Task::recorded(const Config& config) const {
  const auto thrown = [&](const std::string& what) {
    return UserError("the code of kernel '" + kernel + "' threw for {" + config.to_string() + "}: " + what);
  };
  try {
    return record(config);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw thrown(e.what());
  } catch (...) {
    throw thrown("an object that is not a std::exception");
  }
}

Problem Task::recorded_problem() const {
  Problem kept = bucketed.sizes.empty() ? problem : bucketed;
  if (deterministic) kept.kind += one_order_suffix;
  return kept;
}

Config own_part(const Config& config, const std::vector<const char*>& dimensions) {
  Config own;
  for (const Binding& b : config)
    if (is_option(b.name) || std::find(dimensions.begin(), dimensions.end(), b.name) != dimensions.end())
      own.set(b.name, b.value);
  return own;
}

BoundSpace Task::bound_space() const {
  Space members = space;
  if (deterministic) members.only_one_order();
  return BoundSpace(std::move(members), problem, device);
}

std::shared_ptr<const ir::Kernel> Task::canonical() const {
  try {
    return recorded({});
  } catch (const UserError&) { // it reads sizes
    const BoundSpace bound = bound_space();
    if (space.seeds().empty()) throw;
    return recorded(bound.config(space.seeds().front()));
  }
}

RecordKey Task::key_of(Problem of) const {
  return ir ? make_key(kernel, *ir, hash_of(space), std::move(of), device)
            : make_key(*canonical(), space, std::move(of), device);
}

Prior::Prior(const Task& task, const BoundSpace& space, const Machine& machine)
    : task_(task), space_(space), machine_(machine), reads_sizes_(reads_sizes(task)) {
  case_.layouts = task.layouts;
  case_.words.assign(task.words.begin(), task.words.end());
  if (!reads_sizes_) case_.recorded = task.recorded({});
}

const Prior::Known& Prior::look_at(const Point& point) {
  auto [at, is_new] = known_.try_emplace(point);
  if (!is_new) return at->second;
  const Config config = space_.config(point);
  try {
    if (reads_sizes_) case_.recorded = task_.recorded(config);
    if (const auto grid = task_.grid_for(config)) case_.grid = {grid->x, grid->y, grid->z};
    at->second.terms = count_terms(case_, config, task_.device);
  } catch (const UserError& e) {
    at->second.refusal = e.what();
  }
  return at->second;
}

const Terms* Prior::terms(const Point& point) {
  const Known& known = look_at(point);
  return known.terms ? &*known.terms : nullptr;
}
const std::string& Prior::refusal(const Point& point) { return look_at(point).refusal; }

Estimate Prior::estimate(const Point& point) {
  const Terms* t = terms(point);
  return t ? tune::estimate(*t, machine_, task_.device.kind()) : Estimate{};
}

double Prior::operator()(const Point& point) {
  return terms(point) ? estimate(point).seconds : std::numeric_limits<double>::infinity();
}

double Prior::bound() {
  const std::vector<Point> seeds = space_.seeds();
  const auto legal = std::find_if(seeds.begin(), seeds.end(), [&](const Point& seed) { return terms(seed); });
  if (legal == seeds.end()) return 0;
  double least = estimate(*legal).bound;
  for (const auto& [point, known] : known_)
    if (known.terms)
      least = std::min(least, tune::estimate(*known.terms, machine_, task_.device.kind()).bound);
  return least;
}

std::vector<Point> some_points(BoundSpace& space, std::size_t most, const Stop& stop) {
  if (const auto* all = space.points(most, stop)) return *all;
  std::vector<Point> points;
  Random random(most);
  for (std::size_t i = 0; i < most && !(stop && stop()); ++i)
    if (auto point = space.sample(random)) points.push_back(std::move(*point));
  for (const Point& seed : space.seeds())
    points.push_back(seed);
  return points;
}

std::vector<Point> Prior::best(std::span<const Point> points, std::size_t count, const Stop& stop) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < points.size() && !(stop && stop()); ++i)
    if (const double seconds = (*this)(points[i]); std::isfinite(seconds)) order.emplace_back(seconds, i);
  std::sort(order.begin(), order.end());
  std::vector<Point> best;
  for (const auto& [seconds, i] : order) {
    if (best.size() == count) break;
    if (std::find(best.begin(), best.end(), points[i]) == best.end()) best.push_back(points[i]);
  }
  return best;
}

} // namespace kiln::tune
