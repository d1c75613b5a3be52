// Holds recorded tables of measured configs, on which searches are compared without a device.
#pragma once

#include <kiln/autotune/search/search.h>

#include <string>

namespace kiln::tune {

struct Table {
  std::string name;
  Space space; // contains exactly the table's points
  std::vector<Point> points;
  std::vector<Measurement> results; // one per point
  std::string family;               // the kernel; tables of one family are siblings
  Problem problem;
  std::string device;

  double best_seconds() const;
  // Returns the expected number of trials of a random search without repetition to a time of at most best /
  // share.
  double random_trials(double share) const;
};

// Reads the T4 format of the FAIR Benchmark Hub or Kiln's own (see table.cpp): JSON, plain or gzip. Throws
// UserError, which says what is wrong with the file, and where.
Table read_table(const std::string& path);
void write_table(const Table& table, const std::string& path); // Kiln's format; gzip if named *.gz

// Creates a measurer that looks results up in the table; `noise` is the sigma of a log-normal error drawn
// with `seed`.
std::unique_ptr<Measurer> table_measurer(const Table& table, double noise = 0, std::uint64_t seed = 0);

} // namespace kiln::tune
