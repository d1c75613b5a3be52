// The rows as a table and the summary below it: what people read, and what goes into the JSON beside the
// rows.
#pragma once

#include "row.h"

#include <string>
#include <vector>

namespace benchmarks {

// One line of the summary: rows of one kind on as many threads.
struct Mean {
  std::string name;
  int threads = 1, rows = 0;
  int compared = 0;                  // rows that have a peer
  double ratio = 0, worst_ratio = 0; // to the best peer at each row: geometric mean, and the least
  std::string worst_name = {};
  std::string limit = {};
  double share = 0, worst_share = 0;     // of the limit, likewise
  int reached = 0;                       // rows at 0.97 of it or more
  int behind = 0;                        // rows below 0.95 of the best peer that have not reached the limit
  double speedup = 0, worst_speedup = 0; // over one thread: geometric mean, and the least; 0: not measured
};

std::vector<Mean> summarise(const std::vector<Row>& rows);
void print_rows(const std::vector<Row>& rows);
void print_summary(const std::vector<Mean>& means);
nlohmann::ordered_json to_json(const Mean& mean);

} // namespace benchmarks
