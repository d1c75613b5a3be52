// A space of which every point was measured: what searches are compared on without a device.
#pragma once

#include <kiln/autotune/search/search.h>

#include <string>

namespace kiln::tune {

struct Table {
  std::string name;
  Space space; // only its points
  std::vector<Point> points;
  std::vector<Measurement> results; // of each
  std::string family;               // kernel; tables of one family have siblings
  Problem problem;
  std::string device;

  double best_seconds() const;
  // The expected trials of a random search, without repetition, to a time within 1/share of the best.
  double random_trials(double share) const;
};

// The T4 format of the FAIR Benchmark Hub, or Kiln's own (see records/): JSON, plain or gzip. UserError that
// says what is wrong with the file, and where.
Table read_table(const std::string& path);
void write_table(const Table& table, const std::string& path); // Kiln's, gzip if the name ends so

// Answers from the table; `noise` is the sigma of a log-normal error, seeded.
std::unique_ptr<Measurer> table_measurer(const Table& table, double noise = 0, std::uint64_t seed = 0);

} // namespace kiln::tune
