// Prints the rows of a run as a table, and summarises rows of one kind.
#pragma once

#include "row.h"

#include <string>
#include <vector>

namespace benchmarks {

// One line of the summary: the rows of one kind with one number of threads.
struct Mean {
  std::string name;
  int threads = 1, rows = 0;
  int compared = 0;                  // number of rows that have a peer
  double ratio = 0, worst_ratio = 0; // of the best peer's time to Kiln's: geometric mean and minimum
  std::string worst_name = {};
  std::string limit = {};
  double share = 0, worst_share = 0;     // of the limit: geometric mean and minimum
  int reached = 0;                       // number of rows with at least 0.97 of the limit
  int behind = 0;                        // number of other rows with a ratio below 0.95
  double speedup = 0, worst_speedup = 0; // over one thread: geometric mean and minimum; 0: not measured
};

std::vector<Mean> summarise(const std::vector<Row>& rows);
void print_rows(const std::vector<Row>& rows);
void print_summary(const std::vector<Mean>& means);
nlohmann::ordered_json to_json(const Mean& mean);

} // namespace benchmarks
