// Compares the tuner on this machine's CPU with tables in which every config of a kernel was measured.
//
//   build/bin/bench_tuner [benchmarks/tables ...] [--json FILE]
//
// It compares four choices with the table's best config: that of a quick search without records, that of
// the analytic model, the best of the model's first eight, and the default config. The shares are those of
// the best config's speed. All configs are timed now, in alternation, so that the speed of the machine that
// recorded the table does not matter.
#include <kiln/autotune/analytic/machine.h>
#include <kiln/autotune/measure/live_measurer.h>
#include <kiln/autotune/records/record.h>
#include <kiln/autotune/records/store.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task_workload.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/autotune/search/replay.h>
#include <kiln/autotune/search/table.h>
#include <kiln/autotune/space/shape.h>

#include "numbers.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace kiln;

namespace {

// A new cache folder, so that there are no records, kernels or device measurements from before.
class FreshCache {
public:
  FreshCache() {
    std::string path = (std::filesystem::temp_directory_path() / "kiln-bench-tuner-XXXXXX").string();
    if (!mkdtemp(path.data())) throw UserError("cannot create a temporary folder at " + path);
    path_ = path;
    setenv("KILN_CACHE_DIR", path.c_str(), 1);
  }
  ~FreshCache() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

private:
  std::filesystem::path path_;
};

struct Row {
  std::string name;
  std::size_t configs = 0;
  double best_seconds = 0;  // the shortest time, measured now, of the table's three fastest configs
  double quick_seconds = 0; // the duration of the search
  std::size_t quick_trials = 0;
  double quick = 0, analytic = 0, analytic8 = 0, fallback = 0; // shares of the best config's speed
};

// The points that are timed, without duplicates.
class Finalists {
public:
  std::size_t add(const tune::Point& point) {
    const auto at = std::find(points.begin(), points.end(), point);
    if (at != points.end()) return static_cast<std::size_t>(at - points.begin());
    points.push_back(point);
    return points.size() - 1;
  }
  std::vector<tune::Point> points;
};

std::vector<tune::Point> best_of(const tune::Table& table, const tune::BoundSpace& space, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < table.points.size(); ++i)
    if (table.results[i].ok()) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return table.results[a].seconds < table.results[b].seconds;
  });
  std::vector<tune::Point> points;
  for (std::size_t i : order) {
    if (points.size() == count) break;
    const auto point = tune::point_of(space.knobs(), tune::config_text(table.space.knobs(), table.points[i]));
    if (point && space.contains(*point)) points.push_back(*point);
  }
  if (points.empty())
    throw UserError("table " + table.name + ": none of its configs is in the kernel's space any more");
  return points;
}

Row run(const tune::Table& table, bool warm, std::uint64_t seed) {
  const tune::TunableKernel* kernel = tune::find_tunable(table.family);
  if (!kernel) throw UserError("table " + table.name + ": there is no kernel \"" + table.family + "\"");
  const std::string dtype = table.problem.kind.substr(0, table.problem.kind.find('.'));
  const tune::Task task = tune::make_task(*kernel, dtype, tune::shape_of(table.problem), Device::cpu());
  tune::BoundSpace space = task.bound_space();
  Row row{.name = table.name, .configs = table.points.size()};

  const tune::Machine machine = tune::machine_of(task.device, tune::RecordStore::standard_folder());
  const auto begin = std::chrono::steady_clock::now();
  const tune::Tuning quick =
      tune::tune(task, {.effort = tune::quick, .seed = seed, .cold = !warm, .record = false});
  row.quick_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  row.quick_trials = quick.search.trials.size();
  if (!quick.found()) quick.config(); // throws an error with the reason

  Finalists finalists;
  std::vector<std::size_t> best, eight;
  for (const tune::Point& point : best_of(table, space, 3))
    best.push_back(finalists.add(point));
  const std::size_t chosen = finalists.add(*space.point(quick.config()));
  const std::size_t fallback = finalists.add(*quick.fallback);
  tune::Prior prior(task, space, machine);
  for (const tune::Point& point : prior.best(tune::some_points(space), 8))
    eight.push_back(finalists.add(point));

  tune::MeasureOptions options;
  options.cold_cache = !warm;
  options.seed = seed;
  tune::LiveMeasurer measurer(tune::workload_of(task), space, space.config(*quick.fallback), options);
  const auto results = measurer.confirm(finalists.points);
  if (results.size() < finalists.points.size()) throw UserError("interrupted");
  auto seconds = [&](std::size_t i) { return results[i].ok() ? results[i].seconds : INFINITY; };
  auto least = [&](const std::vector<std::size_t>& which) {
    double s = INFINITY;
    for (std::size_t i : which)
      s = std::min(s, seconds(i));
    return s;
  };
  row.best_seconds = least(best);
  row.quick = row.best_seconds / seconds(chosen);
  row.fallback = row.best_seconds / seconds(fallback);
  if (!eight.empty()) row.analytic = row.best_seconds / seconds(eight.front());
  row.analytic8 = row.best_seconds / least(eight);
  return row;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{:<58} {:>7} {:>9} {:>22} {:>6} {:>9} {:>10} {:>8}\n", "", "configs", "best", "quick search",
             "", "analytic", "its first 8", "default");
  for (const Row& r : rows)
    fmt::print("{:<58} {:>7} {:>9} {:>10.1f} s {:>3} trials {:>6.2f} {:>9.2f} {:>10.2f} {:>8.2f}\n", r.name,
               r.configs, benchmarks::time_text(r.best_seconds), r.quick_seconds, r.quick_trials, r.quick,
               r.analytic, r.analytic8, r.fallback);
}

bool write(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::ordered_json json{{"device", Device::cpu().properties().name},
                              {"threads", Device::cpu().properties().num_threads},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const Row& r : rows)
    json["rows"].push_back({{"table", r.name},
                            {"configs", r.configs},
                            {"best_seconds", r.best_seconds},
                            {"quick_search_seconds", r.quick_seconds},
                            {"quick_search_trials", r.quick_trials},
                            {"quick_share", r.quick},
                            {"analytic_share", r.analytic},
                            {"analytic_first_8_share", r.analytic8},
                            {"default_share", r.fallback}});
  std::ofstream file(path);
  return static_cast<bool>(file << json.dump(2) << '\n' << std::flush);
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::string json, only;
  std::uint64_t seed = 0;
  CLI::App app("Compares the tuner on this CPU with tables of all configs", "bench_tuner");
  app.add_option("tables", files,
                 "tables of Kiln's kernels, or folders of them (default: benchmarks/tables)");
  app.add_option("--only", only, "only tables whose name contains this");
  app.add_option("--seed", seed, "seed of the searches and the inputs")->capture_default_str();
  app.add_option("--json", json, "also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  if (files.empty()) files.emplace_back(KILN_BENCHMARKS_DIR "/tables");
  try {
    const FreshCache cache;
    std::vector<std::filesystem::path> paths;
    for (const std::string& file : files) {
      if (!std::filesystem::is_directory(file)) {
        paths.emplace_back(file);
        continue;
      }
      for (const auto& entry : std::filesystem::directory_iterator(file))
        paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    std::vector<Row> rows;
    for (const auto& path : paths) {
      const bool warm = path.filename().string().find("-warm") != std::string::npos;
      tune::Table table = tune::read_table(path.string());
      table.name += warm ? ", warm" : ", cold";
      if (table.name.find(only) == std::string::npos) continue;
      fmt::print(stderr, "{}\n", table.name);
      rows.push_back(run(table, warm, seed));
    }
    print(rows);
    if (json.empty() || write(json, rows)) return 0;
    fmt::print(stderr, "bench_tuner: cannot write {}\n", json);
  } catch (const Error& e) {
    fmt::print(stderr, "bench_tuner: {}\n", e.what());
  }
  return 1;
}
