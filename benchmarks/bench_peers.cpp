// Compares Kiln on the CPU with OpenBLAS, BLIS, oneDNN and PyTorch, and with the limits of the machine.
//
//   build/bin/bench_peers [--threads 1,2] [--only GROUP,...] [--quick] [--json FILE]
//   build/bin/bench_peers --table benchmarks/results
//
// benchmarks/README.md explains the output. Libraries read their number of threads when they are loaded, so
// this program starts itself once for each number of threads, and merges the rows of these processes.
#include "peers/blas.h"
#include "peers/environment.h"
#include "peers/overview.h"
#include "peers/result_file.h"
#include "peers/suite.h"
#include "peers/table.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace benchmarks;
using nlohmann::ordered_json;

constexpr const char* part_variable = "KILN_BENCH_PEERS_PART"; // the file that a child process writes

struct Options {
  SuiteOptions suite;
  std::vector<int> threads;
  std::string json, results;
};

int cpu_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

bool write(const std::string& path, const ordered_json& object) {
  if (write_result_file(path, object)) return true;
  fmt::print(stderr, "{} cannot be written\n", path);
  return false;
}

// Measures all rows with one number of threads, and writes them to `path`. Returns the exit code.
int run_part(const SuiteOptions& options, const std::string& path) {
  Suite suite(options);
  matmul_rows(suite);
  row_kernel_rows(suite);
  chain_rows(suite);
  batched_rows(suite);
  attention_rows(suite);
  decode_rows(suite);
  backward_rows(suite);
  launch_rows(suite);
  compile_rows(suite);
  suite.measure_limits_again();
  const auto& cpu = kiln::Device::cpu().properties();
  ordered_json peers, rows = ordered_json::array();
  for (const auto& [name, description] : suite.peer_descriptions())
    peers[name] = description;
  for (const Row& row : suite.rows())
    rows.push_back(to_json(row));
  ordered_json part = {{"cpu", cpu.name},
                       {"isa", cpu.isa},
                       {"threads", suite.threads()},
                       {"copy_gbs", suite.limits().copy_gbs},
                       {"fma_gflops", suite.limits().fma_gflops},
                       {"tile_gflops", suite.tile_gflops()},
                       {"turns_repeated_for_a_shared_core", suite.repeated_measurements()},
                       {"peers", peers},
                       {"wrong_results", suite.wrong()},
                       {"rows", rows}};
  return write(path, part) ? 0 : 1;
}

// Starts this program again, with the same arguments, for the rows with `threads` threads. Returns null if
// that process failed.
ordered_json rows_on(int threads, char** argv) {
  auto path =
      std::filesystem::temp_directory_path() / fmt::format("kiln-bench-peers-{}-{}.json", getpid(), threads);
  set_threads(threads);
  setenv(part_variable, path.c_str(), 1);
  pid_t child = 0;
  int status = 1;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environ) == 0) {
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) fmt::print(stderr, "ended by a signal: {}\n", strsignal(WTERMSIG(status)));
  }
  ordered_json part;
  if (status == 0) part = ordered_json::parse(std::ifstream(path), nullptr, false);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return part.is_object() ? part : ordered_json();
}

void print_machine(const ordered_json& m) {
  const double tiles = m["tile_gflops"].get<double>();
  fmt::print("{}, threads: {}; copy {:.1f} GB/s, FMA peak {:.0f} GFLOP/s{}\n", m["cpu"].get<std::string>(),
             m["threads"].get<int>(), m["copy_gbs"].get<double>(), m["fma_gflops"].get<double>(),
             tiles > 0 ? fmt::format(", bf16 in tile registers {:.0f}", tiles) : "");
  if (int repeated = m["turns_repeated_for_a_shared_core"].get<int>())
    fmt::print("  {} measurements were repeated because two CPUs shared a core\n", repeated);
  for (const auto& [name, description] : m["peers"].items())
    fmt::print("  {:<9} {}\n", name, description.get<std::string>());
}

int run_all(const Options& options, char** argv) {
  clear_environment();
  Blas::prepare_environment();
  find_python();
  ordered_json all = {{"machines", ordered_json::array()}};
  std::vector<Row> rows;
  int wrong = 0;
  for (int threads : options.threads) {
    fmt::print(stderr, "on {} of {} CPUs\n", threads, cpu_count());
    ordered_json part = rows_on(threads, argv);
    if (part.is_null()) {
      fmt::print(stderr, "the run with threads: {} failed\n", threads);
      return 1;
    }
    wrong += part["wrong_results"].get<int>();
    for (const auto& row : part["rows"])
      rows.push_back(row_from_json(row));
    part.erase("rows");
    all["machines"].push_back(part);
  }

  for (const auto& machine : all["machines"])
    print_machine(machine);
  print_rows(rows);
  auto means = summarise(rows);
  print_summary(means);

  all["means"] = ordered_json::array(), all["rows"] = ordered_json::array();
  for (const Mean& mean : means)
    all["means"].push_back(to_json(mean));
  for (const Row& row : rows)
    all["rows"].push_back(to_json(row));
  if (!options.json.empty() && !write(options.json, all)) return 1;
  if (wrong) fmt::print(stderr, "{} results are wrong, see above\n", wrong);
  return wrong ? 1 : 0;
}

int print_overview(const std::string& folder) {
  try {
    const auto cpus = newest_runs(folder);
    if (!cpus.empty()) {
      fmt::print("{}", overview(cpus));
      return 0;
    }
    fmt::print(stderr, "{} has no file named DATE-CPU-peers-NUMBER.json\n", folder);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
  return 1;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> groups, peers = all_peers;
  bool quick = false, tiny = false;
  CLI::App app("Compares Kiln on the CPU with peers and with the limits of this machine. "
               "benchmarks/README.md explains the output.");
  app.add_option("--threads", options.threads,
                 "numbers of threads, measured one after the other (default: 1,2)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--only", groups, "measure only these groups of rows")
      ->delimiter(',')
      ->check(CLI::IsMember(all_groups));
  auto known = all_peers;
  known.push_back("none");
  app.add_option("--peers", peers, "compare only with these peers, or with none")
      ->delimiter(',')
      ->check(CLI::IsMember(known));
  app.add_option(
         "--rounds", options.suite.race.rounds,
         "repetitions of each measurement (default: 3 to 9 by their length, and more if they disagree)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--quick", quick, "measure some rows of each group, with fewer rounds");
  app.add_flag("--tiny", tiny, "check that everything works, with tiny rows whose times mean nothing");
  app.add_option("--json", options.json, "write all rows to this file as JSON");
  app.add_option("--table", options.results,
                 "measure nothing; print the table of benchmarks/README.md from the results in this folder")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  if (!options.results.empty()) return print_overview(options.results);

  options.suite.groups = {groups.begin(), groups.end()};
  options.suite.peers = {peers.begin(), peers.end()};
  if (quick) {
    options.suite.selection = Selection::quick;
    options.suite.race.seconds = 0.7, options.suite.race.most_seconds = 1.5;
  }
  if (tiny) {
    options.suite.selection = Selection::tiny;
    options.suite.race = {.rounds = 1, .pause = 0, .warm = 0, .measure = 0};
  }
  if (options.threads.empty())
    options.threads = cpu_count() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
  if (const char* path = std::getenv(part_variable)) return run_part(options.suite, path);
  return run_all(options, argv);
}
