// Writes one run of bench_peers as a JSON file, and finds and reads the newest runs in a folder of them.
#pragma once

#include "row.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace benchmarks {

// The properties of its machine that a run measured with one number of threads.
struct Machine {
  int threads = 1;
  std::string isa;
  double copy_gbs = 0, fma_gflops = 0;
};

struct Run {
  std::vector<Machine> machines; // one for each number of threads
  std::vector<Row> rows;
};

// The newest runs on one CPU: two that were made one after the other, or one.
struct RunsOnCpu {
  std::string cpu, date; // "Zen 4", "2026-11-27"
  std::vector<Run> runs;
};

// Writes an object, the elements of its arrays on a line each. Returns false if the file cannot be written.
bool write_result_file(const std::string& path, const nlohmann::ordered_json& object);

// Reads the files of `folder` that are named DATE-CPU-peers-NUMBER.json, as in 2026-11-27-zen-4-peers-1.json;
// it ignores all others. Of each CPU it takes the newest date, and of that date the two highest numbers. The
// CPUs come in alphabetical order. Throws std::runtime_error if a file does not hold a run.
std::vector<RunsOnCpu> newest_runs(const std::filesystem::path& folder);

} // namespace benchmarks
