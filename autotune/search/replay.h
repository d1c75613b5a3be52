// Runs searches on recorded tables, to compare how many trials each strategy needs without a device.
//
//   ReplayOptions options;
//   options.files = {"tables/"};            // tables, or folders of them
//   options.strategies = {"learned", "random"};
//   return run_replay(options);             // `kiln tune --replay tables/ --strategy learned,random`
#pragma once

#include <kiln/autotune/search/table.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace kiln::tune {

struct ReplayOptions {
  std::vector<std::string> files;      // table files, and folders whose *.json and *.json.gz files are tables
  std::vector<std::string> strategies; // empty: all
  int seeds = 50;
  int trials = 256; // a run that does not reach a share counts as twice this number
  double noise = 0; // sigma of a log-normal error in each measurement
  int sibling_records = 300;
  // Repeats each search with records of the family's other tables, if there are enough.
  bool siblings = true;
  int jobs = 0; // parallel searches; 0: as many as there are CPUs
  bool json = false;
  bool progress = true; // printed on standard error if that is a terminal
  // Completes the context of a search, for example with the analytic model of a table that Kiln wrote.
  std::function<void(const Table&, SearchContext&)> prepare;
};

// Classifies tables by the expected trials of a random search without repetition to within 5 % of the best.
enum class Difficulty : std::uint8_t { easy, listed, needle }; // below 50 trials, 50 to 600, more
Difficulty difficulty(const Table& table);

inline constexpr std::array<double, 3> replay_shares{0.90, 0.95, 0.98}; // shares of the best speed
inline constexpr std::array<int, 4> replay_marks{32, 64, 128, 256};     // trials

// The results of one strategy on one table.
struct Replay {
  std::string strategy;
  bool siblings = false;
  std::size_t table = 0;                   // index of the table
  std::array<std::vector<int>, 3> reached; // trials to each share by seed; twice `trials`: not reached
  std::array<double, 3> median{};          // of `reached`
  double p90 = 0;                          // 90th percentile of the trials to 95 %
  std::array<double, 4> share{};           // of the best speed after 32, 64, ... trials, averaged over seeds
  double model_seconds = 0;                // CPU time that one run spends in the search itself
};

// The columns of a table's family: each knob and each size of the problem by name, so that records of one
// table can be used in another. Also draws random records of the other tables.
struct FamilyColumns {
  FamilyColumns(const std::vector<Table>& tables, std::size_t table);
  std::vector<std::string> names;
  void columns(std::size_t table, const Point& point, std::span<float> row) const;
  // Draws `count` records spread over the other tables, or fewer if there are not enough.
  std::vector<Sibling> draw(std::size_t count, Random& random) const;
  std::size_t records() const; // number of records in the other tables

private:
  struct Source {           // the source of one column in one table
    int knob = -1;          // -1: the value is `fixed`
    float fixed = 0;        // NaN: this table does not have the column
    std::vector<float> ids; // the column's value for each value of the knob
  };
  const std::vector<Table>& tables_;
  std::vector<std::size_t> others_;          // other tables of the family
  std::vector<std::vector<Source>> sources_; // by table and column; empty for other families
};

// Throws UserError as read_table does, or if there is no table.
std::vector<Table> read_tables(const std::vector<std::string>& files);
// Returns results in the order of tables, then strategies. They depend only on the seeds, not on `jobs`.
std::vector<Replay> replay(const std::vector<Table>& tables, const ReplayOptions& options);
// Returns the geometric mean of the medians over all tables of one difficulty.
double trials_to(const std::vector<Replay>& replays, const std::vector<Table>& tables, Difficulty difficulty,
                 const std::string& strategy, bool siblings, std::size_t share);

std::string replay_text(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options);
std::string replay_json(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options);

// Reads the tables, runs the searches and prints the results. Returns the exit code.
int run_replay(const ReplayOptions& options);

} // namespace kiln::tune
