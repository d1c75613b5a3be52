// Kiln on the CPU beside OpenBLAS, BLIS, oneDNN and PyTorch, where they are, and beside the limits of this
// machine: benchmarks/README.md explains the table.
//
//   build/bin/bench_peers [--threads 1,2] [--only GROUP,...] [--quick] [--json FILE]
//
// Libraries read how many threads to use when they are loaded, so this program runs itself once for each
// number of threads, and puts the rows together.
#include "numbers.h"
#include "peers/blas.h"
#include "peers/suite.h"
#include "peers/table.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace benchmarks;
using nlohmann::ordered_json;

constexpr const char* part_variable = "KILN_BENCH_PEERS_PART"; // where the parts of this run write their rows

struct Options {
  SuiteOptions suite;
  std::vector<int> threads;
  std::string json;
};

int cpu_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

// The object's members, those of a list on a line each.
bool write_file(const std::string& path, const ordered_json& json) {
  std::ofstream out(path);
  const char* before = "{";
  for (const auto& [key, value] : json.items()) {
    out << before << "\n  " << ordered_json(key).dump() << ": ";
    before = ",";
    if (!value.is_array()) {
      out << value.dump();
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i)
      out << (i ? ",\n    " : "[\n    ") << value[i].dump();
    out << (value.empty() ? "[]" : "\n  ]");
  }
  out << "\n}\n";
  out.close();
  return !out.fail();
}

// One number of threads: all rows, written to `path`. Returns the exit code.
int run_part(const SuiteOptions& options, const std::string& path) {
  Suite suite(options);
  matmul_rows(suite);
  row_kernel_rows(suite);
  chain_rows(suite);
  attention_rows(suite);
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
                       {"turns_repeated_for_a_shared_core", suite.repeated_turns()},
                       {"peers", peers},
                       {"wrong_results", suite.wrong()},
                       {"rows", rows}};
  if (write_file(path, part)) return 0;
  fmt::print(stderr, "{} cannot be written\n", path);
  return 1;
}

// What a library reads from the environment when it starts. Variables that tune a peer, or hold it back,
// would make it another one on every machine: they go.
void set_threads(int threads) {
  for (const char* name : {"KILN_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"})
    setenv(name, std::to_string(threads).c_str(), 1);
}
void clear_environment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable; ++variable) {
    std::string_view name(*variable, std::strcspn(*variable, "="));
    for (std::string_view prefix : {"OPENBLAS_", "GOTO_", "BLIS_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_",
                                    "ONEDNN_", "ATEN_", "TORCH_"})
      if (name.substr(0, prefix.size()) == prefix) names.emplace_back(name);
  }
  for (const std::string& name : names)
    unsetenv(name.c_str());
}

// Where install_pytorch.sh puts it: beside the folder of this program.
void find_python() {
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  auto python = program.parent_path().parent_path() / "pytorch" / "bin" / "python";
  if (!error && std::filesystem::exists(python, error)) setenv("KILN_PYTHON", python.c_str(), 0);
}

// Runs this program again, with the same arguments, for its rows on as many threads. Null if it failed.
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

  for (const auto& m : all["machines"]) {
    const double tiles = m["tile_gflops"].get<double>();
    fmt::print("{}, threads: {}; copy {:.1f} GB/s, FMA peak {:.0f} GFLOP/s{}\n", m["cpu"].get<std::string>(),
               m["threads"].get<int>(), m["copy_gbs"].get<double>(), m["fma_gflops"].get<double>(),
               tiles > 0 ? fmt::format(", bf16 in tile registers {:.0f}", tiles) : "");
    if (int repeated = m["turns_repeated_for_a_shared_core"].get<int>())
      fmt::print("  {} turns were run again, since the host ran two CPUs on one core\n", repeated);
    for (const auto& [name, description] : m["peers"].items())
      fmt::print("  {:<9} {}\n", name, description.get<std::string>());
  }
  print_rows(rows);
  auto means = summarise(rows);
  print_summary(means);

  all["means"] = ordered_json::array(), all["rows"] = ordered_json::array();
  for (const Mean& mean : means)
    all["means"].push_back(to_json(mean));
  for (const Row& row : rows)
    all["rows"].push_back(to_json(row));
  if (!options.json.empty() && !write_file(options.json, all)) {
    fmt::print(stderr, "{} cannot be written\n", options.json);
    return 1;
  }
  if (wrong) fmt::print(stderr, "{} results are wrong, see above\n", wrong);
  return wrong ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> groups, peers = all_peers;
  bool quick = false, tiny = false;
  CLI::App app("Kiln on the CPU beside peers and the limits of this machine; see benchmarks/README.md.");
  app.add_option("--threads", options.threads, "numbers of threads, one after the other (default: 1,2)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--only", groups, "only these groups of rows")
      ->delimiter(',')
      ->check(CLI::IsMember(all_groups));
  auto known = all_peers;
  known.push_back("none");
  app.add_option("--peers", peers, "only these peers, or none")->delimiter(',')->check(CLI::IsMember(known));
  app.add_option("--rounds", options.suite.race.rounds,
                 "turns of each contender (default: 3 to 9, by their length; more where they disagree)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--quick", quick, "some rows of each group, fewer rounds");
  app.add_flag("--tiny", tiny, "rows that take no time, to see that everything works");
  app.add_option("--json", options.json, "write all rows to this file as JSON");
  CLI11_PARSE(app, argc, argv);

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
