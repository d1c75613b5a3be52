// What all rows of bench_peers need: the options, the peers, the machine's limits, and the race.
#pragma once

#include "../python_peers.h"
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

enum class Selection : std::uint8_t { full, quick, tiny }; // tiny: only to see that everything works

struct SuiteOptions {
  Selection selection = Selection::full;
  std::set<std::string> groups; // none: all
  std::set<std::string> peers;
  RaceOptions race;
};

inline const std::vector<std::string> all_peers = {"openblas", "blis", "onednn", "pytorch"};
inline const std::vector<std::string> all_groups = {"matmul", "llama",     "transposed", "bf16",
                                                    "int8",   "softmax",   "layernorm",  "rmsnorm",
                                                    "chain",  "attention", "launch",     "compile"};

// What one run does, and the least seconds that it can take; 0: not known, or what a contender of the role
// limit took.
struct Work {
  double amount = 0;
  std::string unit = "GFLOP/s"; // of amount * 1e-9 a second
  std::string limit = {};
  std::function<double()> least_seconds = {}; // by the machine's limits; asked again when these are known
  double elements = 0;                        // for the time that a core takes for each; 0: of no interest
};

class Suite {
public:
  explicit Suite(const SuiteOptions& options);

  bool full() const { return options_.selection == Selection::full; }
  bool tiny() const { return options_.selection == Selection::tiny; }
  bool wanted(const std::string& group) const {
    return options_.groups.empty() || options_.groups.count(group) != 0;
  }
  // The peers, each a line of the table's head; those that are absent say so.
  std::vector<std::pair<std::string, std::string>> peer_descriptions() const;
  const samples::MachineLimits& limits() const { return limits_; }
  double tile_gflops() const { return tile_gflops_; } // of bf16 in AMX's registers; 0: there are none
  // Multiply-adds a second, times two, of numbers of so many bytes.
  double peak_gflops(std::size_t bytes) const { return peak_gflops(bytes, limits_.fma_gflops, tile_gflops_); }
  // Once more, and again where two CPUs shared a core meanwhile; the best holds, for all rows so far too.
  void measure_limits_again();

  // Adds "FMA", the least time that so many operations on numbers of so many bytes take, by loops whose
  // operands are all in registers.
  void add_fma(std::vector<Contender>& contenders, double operations, std::size_t bytes);
  // Adds "PyTorch", whose time comes from its own process, if that is there.
  void add_pytorch(std::vector<Contender>& contenders, const std::string& request);

  // Runs Kiln (the first contender) and the others in turns, and keeps the row with their times.
  // A peer that took 20 times as long as Kiln, and more than a second, is left out of the group's later rows
  // of that dtype: PyTorch multiplies large bf16 matrices for minutes on CPUs without such instructions.
  void run(Row row, std::vector<Contender> contenders, const Work& work);
  // A row that needs no race.
  void keep(Row row);
  // Counts a result that is further off than its bound (or NaN) as a failure of the program, and says so.
  void check(const Row& row, const std::string& who, double error, double bound);

  int threads() const { return threads_; }
  const std::vector<Row>& rows() const { return rows_; }
  int wrong() const { return wrong_; }
  // Turns that were run again, since the CPUs shared a core.
  int repeated_turns() const { return sharing_ ? sharing_->repeated_turns : 0; }

  kiln::Stream stream;
  Blas open_blas, blis;
  bool onednn = false;

private:
  std::int64_t copied_bytes() const;
  static double peak_gflops(std::size_t bytes, double of_vectors, double of_tiles);
  SuiteOptions options_;
  int threads_;
  Placement placement_;
  std::unique_ptr<CoreSharing> sharing_; // none with one thread
  std::unique_ptr<PythonPeers> python_;
  samples::MachineLimits limits_;
  double tile_gflops_ = 0;
  std::vector<Row> rows_;
  std::map<std::size_t, std::function<double()>> least_seconds_; // of rows, by their numbers
  static constexpr double too_slow_ratio = 20, too_slow_seconds = 1;
  std::set<std::pair<std::string, std::string>> too_slow_; // a group's dtype, and the peer
  int wrong_ = 0;
};

// The rows, one function for each kind; each looks at wanted().
void matmul_rows(Suite& suite);
void row_kernel_rows(Suite& suite);
void chain_rows(Suite& suite);
void attention_rows(Suite& suite);
void launch_rows(Suite& suite);
void compile_rows(Suite& suite);

} // namespace benchmarks
