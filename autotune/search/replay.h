// Searches on recorded tables: how many trials each strategy needs, without a device.
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
  std::vector<std::string> files;      // tables, and folders whose *.json and *.json.gz are tables
  std::vector<std::string> strategies; // empty: all
  int seeds = 50;
  int trials = 256; // a run that misses a share counts twice as many
  double noise = 0; // sigma of a log-normal error of each measurement
  int sibling_records = 300;
  bool siblings =
      true;     // each search again with records of the family's other tables, where there are as many
  int jobs = 0; // searches at once; 0: as many as there are CPUs
  bool json = false;
  bool progress = true; // on standard error where that is a terminal
  // Completes what a search is told of a table: the analytic model of one of Kiln's own.
  std::function<void(const Table&, SearchContext&)> prepare;
};

// What a random search without repetition would need to come within 5 % of the best tells tables apart.
enum class Difficulty : std::uint8_t { easy, listed, needle }; // below 50 trials, 50 to 600, more
Difficulty difficulty(const Table& table);

inline constexpr std::array<double, 3> replay_shares{0.90, 0.95, 0.98}; // of the best
inline constexpr std::array<int, 4> replay_marks{32, 64, 128, 256};     // trials

// One strategy on one table.
struct Replay {
  std::string strategy;
  bool siblings = false;
  std::size_t table = 0;                   // of those given
  std::array<std::vector<int>, 3> reached; // trials to each share, by seed; twice `trials`: not
  std::array<double, 3> median{};          // of them
  double p90 = 0;                          // of the trials to 95 %
  std::array<double, 4> share{};           // of the best after 32, 64, ... trials, mean over seeds
  double model_seconds = 0;                // of one run, the search's own CPU time
};

// The columns of a table's family: each knob by name and each size of the problem, so that records of one
// table mean something in another; and records of the others, at random.
struct FamilyColumns {
  FamilyColumns(const std::vector<Table>& tables, std::size_t table);
  std::vector<std::string> names;
  void columns(std::size_t table, const Point& point, std::span<float> row) const;
  // `count` of them spread over the other tables; fewer if there are not as many.
  std::vector<Sibling> draw(std::size_t count, Random& random) const;
  std::size_t records() const; // of the other tables

private:
  struct Source {           // of one column of one table
    int knob = -1;          // -1: `fixed`
    float fixed = 0;        // NaN: this table has no such column
    std::vector<float> ids; // of a knob's values
  };
  const std::vector<Table>& tables_;
  std::size_t table_;
  std::vector<std::size_t> others_;          // of the family
  std::vector<std::vector<Source>> sources_; // of each table, of each column; empty for other families
};

std::vector<Table>
read_tables(const std::vector<std::string>& files); // UserError as read_table, or none found
// In the order of tables, then strategies. Results depend on seeds alone, not on `jobs`.
std::vector<Replay> replay(const std::vector<Table>& tables, const ReplayOptions& options);
// Of the tables of one difficulty: a geometric mean of medians.
double trials_to(const std::vector<Replay>& replays, const std::vector<Table>& tables, Difficulty difficulty,
                 const std::string& strategy, bool siblings, std::size_t share);

std::string replay_text(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options);
std::string replay_json(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options);

// All of it: reads, searches, prints. Returns the exit code.
int run_replay(const ReplayOptions& options);

} // namespace kiln::tune
