// Replays the tuner's search strategies on recorded tables, in which each config of a space was measured.
//
//   build/bin/bench_replay tables/ [--strategy learned,random] [--seeds 50] [--json FILE]
//
// Without arguments it reads the tables in the folder that KILN_TUNING_SPACES names.
#include <kiln/autotune/search/replay.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace kiln;

int main(int argc, char** argv) {
  tune::ReplayOptions options;
  std::string json;
  bool no_siblings = false;
  CLI::App app("Replays searches on recorded tables", "bench_replay");
  app.add_option("tables", options.files, "tables (in the T4 format or Kiln's own), or folders of them");
  app.add_option("--strategy", options.strategies, "strategies, separated by commas; default: all")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--seeds", options.seeds, "searches of each table")->capture_default_str();
  app.add_option("--trials", options.trials,
                 "trials of each search; a search that misses the goal counts as twice as many")
      ->capture_default_str();
  app.add_option("--noise", options.noise, "sigma of each measurement's log-normal error")
      ->capture_default_str();
  app.add_option("--sibling-records", options.sibling_records,
                 "records of sibling tables that a search starts with")
      ->capture_default_str();
  app.add_flag("--no-siblings", no_siblings, "only searches without records of siblings");
  app.add_option("--jobs", options.jobs, "concurrent searches; 0: one for each CPU")->capture_default_str();
  app.add_option("--json", json, "also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  options.siblings = !no_siblings;
  const char* folder = std::getenv("KILN_TUNING_SPACES");
  if (options.files.empty() && folder && *folder) options.files.emplace_back(folder);
  try {
    const auto tables = tune::read_tables(options.files);
    const auto replays = tune::replay(tables, options);
    std::fputs(tune::replay_text(tables, replays, options).c_str(), stdout);
    if (json.empty()) return 0;
    std::ofstream file(json);
    if (file << tune::replay_json(tables, replays, options) << std::flush) return 0;
    std::fprintf(stderr, "bench_replay: cannot write %s\n", json.c_str());
  } catch (const Error& e) {
    std::fprintf(stderr, "bench_replay: %s\n", e.what());
  }
  return 1;
}
