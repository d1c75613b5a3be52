// Runs the rows of bench_peers: holds the options, the peers and the machine's limits, and collects results.
#pragma once

#include "benchmarks/python_peers.h"
#include "blas.h"
#include "onednn.h"
#include "placement.h"
#include "race.h"
#include "row.h"

#include <kiln/kiln.h>
#include <samples/machine_limits.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace benchmarks {

enum class Selection : std::uint8_t { full, quick, tiny }; // tiny only checks that everything works

struct SuiteOptions {
  Selection selection = Selection::full;
  std::set<std::string> groups; // all if empty
  std::set<std::string> peers;
  RaceOptions race;
};

inline const std::vector<std::string> all_peers = {"openblas", "blis", "onednn", "pytorch"};
inline const std::vector<std::string> all_groups = {
    "matmul", "llama",   "transposed", "bf16",   "int8",     "softmax", "layernorm", "rmsnorm",
    "chain",  "batched", "attention",  "decode", "backward", "launch",  "compile"};

// The work of one run and its limit. The limit's time is that of the contender named `limit` or, if it is
// set, the result of least_seconds.
struct Work {
  double amount = 0;            // operations or bytes
  std::string unit = "GFLOP/s"; // of amount * 1e-9 per second
  std::string limit = {};
  std::function<double()> least_seconds = {}; // evaluated at the end, when the machine's limits are final
  double elements = 0;                        // for the time of one element; 0: not reported
};

class Suite {
public:
  explicit Suite(const SuiteOptions& options);

  bool full() const { return options_.selection == Selection::full; }
  bool tiny() const { return options_.selection == Selection::tiny; }
  bool wanted(const std::string& group) const {
    return options_.groups.empty() || options_.groups.count(group) != 0;
  }
  // The name and description of each peer, also of those that are absent or excluded.
  std::vector<std::pair<std::string, std::string>> peer_descriptions() const;
  const samples::MachineLimits& limits() const { return limits_; }
  double tile_gflops() const { return tile_gflops_; } // of bf16 in AMX tile registers; 0 without AMX
  // The peak rate of arithmetic on numbers of `bytes` bytes; a multiply-add counts as two operations.
  double peak_gflops(std::size_t bytes) const { return peak_gflops(bytes, limits_.fma_gflops, tile_gflops_); }
  // Measures the limits again, repeatedly if two CPUs shared a core meanwhile. The best result becomes the
  // limit of all rows, including those that are already measured.
  void measure_limits_again();

  // Adds the limit "FMA": the time that `operations` on numbers of `bytes` bytes take in loops whose
  // operands are all in registers.
  void add_fma(std::vector<Contender>& contenders, double operations, std::size_t bytes);
  // Adds "PyTorch", which runs in its own process, if it is installed.
  void add_pytorch(std::vector<Contender>& contenders, const std::string& request);

  // Times Kiln (the first contender) and the others in alternation, and keeps the row with their times.
  // A peer that took more than 20 times as long as Kiln, and more than a second, is excluded from the group's
  // later rows of that dtype: PyTorch multiplies large bf16 matrices for minutes on CPUs without bf16.
  void run(Row row, std::vector<Contender> contenders, const Work& work);
  // Keeps a row that is already timed.
  void keep(Row row);
  // Reports a result whose error exceeds the bound or is NaN, and counts it as a failure of the program.
  void check(const Row& row, const std::string& who, double error, double bound);

  int threads() const { return threads_; }
  const std::vector<Row>& rows() const { return rows_; }
  int wrong() const { return wrong_; }
  // The number of turns that were repeated because the CPUs shared a core.
  int repeated_measurements() const { return sharing_ ? sharing_->repeated : 0; }

  kiln::Stream stream;
  Blas open_blas, blis;
  bool onednn = false;

private:
  std::int64_t copied_bytes() const;
  static double peak_gflops(std::size_t bytes, double of_vectors, double of_tiles);
  SuiteOptions options_;
  int threads_;
  Placement placement_;
  std::unique_ptr<CoreSharing> sharing_; // null with one thread
  std::unique_ptr<PythonPeers> python_;
  samples::MachineLimits limits_;
  double tile_gflops_ = 0;
  std::vector<Row> rows_;
  std::map<std::size_t, std::function<double()>> least_seconds_; // by the index of the row
  static constexpr double too_slow_ratio = 20, too_slow_seconds = 1;
  std::set<std::pair<std::string, std::string>> too_slow_; // group with dtype, and peer
  int wrong_ = 0;
};

// Each function measures the rows of its groups that are wanted().
void matmul_rows(Suite& suite);
void row_kernel_rows(Suite& suite);
void chain_rows(Suite& suite);
void attention_rows(Suite& suite);
void batched_rows(Suite& suite);
void decode_rows(Suite& suite);
void backward_rows(Suite& suite);
void launch_rows(Suite& suite);
void compile_rows(Suite& suite);

} // namespace benchmarks
