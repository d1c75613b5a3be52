// Defines what a report shows of a tuning run.
//
// The values are plain, so that a run on a device and a replay of a table are reported in the same way.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/search/search.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::tune {

struct Tuning;

// A quantity of every trial in addition to its knobs and its time: a term of the analytic model, or a size.
struct ReportColumn {
  std::string name, unit;     // unit: "s", "B" or none
  std::vector<double> values; // one for each trial; NaN: not known
};

// The prediction of the analytic model for one config.
struct ReportEstimate {
  std::string name; // "best", "default"
  Estimate estimate;
};

// A rule of the space, with the number of tried points for which it was the first rule to reject them.
struct RemovedPoints {
  std::string rule;
  int points = 0;
};

// A value that is empty, zero or NaN is not known, and the report leaves it out.
struct ReportData {
  std::string kernel;   // or the table's name
  std::string problem;  // "M=512,N=512,K=512 f32"
  std::string device;   // "cpu: AMD EPYC 9575F"
  std::string strategy; // with the options it was started with: "learned, seed 0"
  std::vector<Knob> knobs;
  SearchResult search;
  std::optional<Point> fallback;                     // the known-good config
  std::optional<Point> analytic;                     // what the analytic model chose without measuring
  double fallback_seconds = 0, analytic_seconds = 0; // used where no trial has them
  double bound = 0;      // a lower bound on the seconds of any config, by the analytic model
  double known_best = 0; // seconds of the best config in an exhaustive table

  std::vector<double> expected; // predicted seconds of each trial; infinite: the analytic model rejects it
  std::vector<ReportColumn> columns;
  double flops = 0, bytes = 0; // of one launch: useful arithmetic; memory traffic if each byte moves once

  double space_size = 0; // number of configs
  bool space_size_exact = false;
  int points_tried = 0; // random combinations of all knob values, tried to fill `removed`
  std::vector<RemovedPoints> removed;
  std::vector<ReportEstimate> estimates;                     // the best config's comes first
  std::vector<std::pair<std::string, double>> contributions; // of knobs to the best config's time: explain.h

  std::vector<std::pair<std::string, std::string>> machine; // names and values that describe the machine
  int jobs = 0;                                             // number of concurrent compilers
  std::size_t sibling_records = 0;
  int bad_records = 0;
};

ReportData report_data(const Tuning& tuning);

// "BM=64,BN=32,order=swizzled"
std::string point_text(const std::vector<Knob>& knobs, const Point& point);
// Returns the text of one value; "?" if the knob has no value at that index.
std::string value_text(const Knob& knob, std::size_t index);

} // namespace kiln::tune
