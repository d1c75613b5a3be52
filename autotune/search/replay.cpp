// Runs every strategy on every table with every seed, and summarises the results.
#include <kiln/autotune/search/replay.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include <ctime>
#include <unistd.h>

namespace kiln::tune {

namespace {

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Run {
  std::array<int, 3> reached{};
  std::array<double, 4> share{};
  double model_seconds = 0;
};

Run run_once(const std::vector<Table>& tables, const Replay& replay, const FamilyColumns& family,
             std::uint64_t seed, const ReplayOptions& options) {
  const Table& table = tables[replay.table];
  BoundSpace space(table.space, table.problem, Device::cpu());
  SearchContext context{space, seed, {}, {}, {}, {}, {}};
  if (replay.siblings) {
    context.column_names = family.names;
    context.columns = [&](const Point& p, std::span<float> row) { family.columns(replay.table, p, row); };
    Random random(seed + 1);
    context.siblings = family.draw(static_cast<std::size_t>(options.sibling_records), random);
  }
  if (options.prepare) options.prepare(table, context);
  const auto strategy = make_strategy(replay.strategy, std::move(context));
  const auto measurer = table_measurer(table, options.noise, seed);
  Budget budget;
  budget.trials = options.trials;
  budget.seconds = budget.chance = 0;
  budget.confirm = 0;
  const double start = thread_cpu_seconds();
  const SearchResult result = search(*strategy, *measurer, budget);
  Run run;
  run.model_seconds = thread_cpu_seconds() - start;

  // Use the times in the table, also if the search saw noise.
  std::unordered_map<Point, double, PointHash> truth;
  if (options.noise > 0)
    for (std::size_t i = 0; i < table.points.size(); ++i)
      truth.emplace(table.points[i], table.results[i].seconds);
  const double best = table.best_seconds();
  run.reached.fill(2 * options.trials);
  double fastest = std::numeric_limits<double>::infinity();
  std::size_t mark = 0;
  for (std::size_t i = 0; i < result.trials.size(); ++i) {
    const Trial& t = result.trials[i];
    if (t.result.ok()) fastest = std::min(fastest, options.noise > 0 ? truth.at(t.point) : t.result.seconds);
    for (std::size_t s = 0; s < replay_shares.size(); ++s)
      if (run.reached[s] == 2 * options.trials && fastest <= best / replay_shares[s])
        run.reached[s] = static_cast<int>(i) + 1;
    if (mark < replay_marks.size() && static_cast<int>(i) + 1 == replay_marks[mark])
      run.share[mark++] = best / fastest;
  }
  for (; mark < replay_marks.size(); ++mark)
    run.share[mark] = best / fastest;
  return run;
}

double quantile(std::vector<int> values, double q) { // interpolates between the two nearest values
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

} // namespace

Difficulty difficulty(const Table& table) {
  const double trials = table.random_trials(0.95);
  return trials < 50 ? Difficulty::easy : trials <= 600 ? Difficulty::listed : Difficulty::needle;
}

std::vector<Table> read_tables(const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    std::error_code error;
    if (!std::filesystem::is_directory(file, error)) {
      paths.push_back(file);
      continue;
    }
    std::vector<std::string> tables;
    for (const auto& entry : std::filesystem::directory_iterator(file, error))
      if (const std::string name = entry.path().string();
          name.ends_with(".json") || name.ends_with(".json.gz"))
        tables.push_back(name);
    if (tables.empty())
      throw UserError("folder " + file + " contains no table; tables are files named *.json or *.json.gz");
    std::sort(tables.begin(), tables.end());
    paths.insert(paths.end(), tables.begin(), tables.end());
  }
  if (paths.empty())
    throw UserError("there is no table to replay; give a file or a folder, or set KILN_TUNING_SPACES");
  std::vector<Table> tables;
  for (const std::string& path : paths)
    tables.push_back(read_table(path));
  return tables;
}

std::vector<Replay> replay(const std::vector<Table>& tables, const ReplayOptions& options) {
  if (options.seeds < 1 || options.trials < 1)
    throw UserError("a replay of " + std::to_string(options.seeds) + " seeds and " +
                    std::to_string(options.trials) + " trials measures nothing; both must be at least 1");
  const std::vector<std::string> names = options.strategies.empty() ? strategy_names() : options.strategies;
  std::vector<FamilyColumns> families;
  for (std::size_t t = 0; t < tables.size(); ++t)
    families.emplace_back(tables, t);
  std::vector<Replay> replays;
  for (const bool siblings : {false, true})
    for (std::size_t t = 0; t < tables.size(); ++t)
      for (const std::string& name : names) {
        if (siblings && (!options.siblings || options.sibling_records < 1 || !uses_siblings(name) ||
                         families[t].records() < static_cast<std::size_t>(options.sibling_records)))
          continue;
        replays.push_back({});
        replays.back().strategy = name;
        replays.back().siblings = siblings;
        replays.back().table = t;
      }

  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<std::vector<Run>> runs(replays.size(), std::vector<Run>(seeds));
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t done = 0;
  const bool show = options.progress && isatty(STDERR_FILENO);
  auto work = [&] {
    for (;;) {
      const std::size_t job = next++;
      if (job >= replays.size() * seeds) return;
      const Replay& r = replays[job / seeds];
      try {
        runs[job / seeds][job % seeds] = run_once(tables, r, families[r.table], job % seeds, options);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = replays.size() * seeds;
      }
      const std::lock_guard lock(mutex);
      if (++done; show)
        std::fprintf(stderr, "\r%5.1f %%  %s on %s\033[K",
                     100 * static_cast<double>(done) / static_cast<double>(replays.size() * seeds),
                     r.strategy.c_str(), tables[r.table].name.c_str());
    }
  };
  std::vector<std::thread> threads;
  const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::thread::hardware_concurrency());
  for (int j = 1; j < jobs; ++j)
    threads.emplace_back(work);
  work();
  for (std::thread& t : threads)
    t.join();
  if (show) std::fprintf(stderr, "\r\033[K");
  if (failure) std::rethrow_exception(failure);

  for (std::size_t r = 0; r < replays.size(); ++r) {
    Replay& replay = replays[r];
    for (const Run& run : runs[r]) {
      for (std::size_t s = 0; s < replay_shares.size(); ++s)
        replay.reached[s].push_back(run.reached[s]);
      for (std::size_t m = 0; m < replay_marks.size(); ++m)
        replay.share[m] += run.share[m] / options.seeds;
      replay.model_seconds += run.model_seconds / options.seeds;
    }
    for (std::size_t s = 0; s < replay_shares.size(); ++s)
      replay.median[s] = quantile(replay.reached[s], 0.5);
    replay.p90 = quantile(replay.reached[1], 0.9);
  }
  return replays;
}

double trials_to(const std::vector<Replay>& replays, const std::vector<Table>& tables, Difficulty kind,
                 const std::string& strategy, bool siblings, std::size_t share) {
  double sum = 0;
  int count = 0;
  for (const Replay& r : replays)
    if (r.strategy == strategy && r.siblings == siblings && difficulty(tables[r.table]) == kind)
      sum += std::log(r.median[share]), ++count;
  return count ? std::exp(sum / count) : 0;
}

int run_replay(const ReplayOptions& options) {
  for (const std::string& name : options.strategies) { // fail before hours of work
    BoundSpace space(Space{}, {}, Device::cpu());
    make_strategy(name, {space, 0, {}, {}, {}, {}, {}});
  }
  const std::vector<Table> tables = read_tables(options.files);
  const std::vector<Replay> replays = replay(tables, options);
  const std::string text =
      options.json ? replay_json(tables, replays, options) : replay_text(tables, replays, options);
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

} // namespace kiln::tune
