// What a report shows of a tuning run: plain values, so that a run on a device and a replay of a table are
// told alike.
#pragma once

#include <kiln/autotune/analytic/roofline.h>
#include <kiln/autotune/search/search.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::tune {

struct Tuning;

// A quantity of every trial beside its knobs and its time: a term of the analytic model, a size.
struct ReportColumn {
  std::string name, unit;     // unit: "s", "B" or none
  std::vector<double> values; // of each trial; NaN: not known
};

// What the analytic model says of one config.
struct ReportEstimate {
  std::string name; // "best", "default"
  Estimate estimate;
};

// A rule of the space, and how many of the points that were tried it was the first to refuse.
struct RemovedPoints {
  std::string rule;
  int points = 0;
};

// Whatever is empty, zero or not a number is not known, and the report goes without it.
struct ReportData {
  std::string kernel;   // or the table's name
  std::string problem;  // "M=512,N=512,K=512 f32"
  std::string device;   // "cpu: AMD EPYC 9575F"
  std::string strategy; // with what it was started with: "learned, seed 0"
  std::vector<Knob> knobs;
  SearchResult search;
  std::optional<Point> fallback;                     // the known-good config
  std::optional<Point> analytic;                     // what the analytic model chose without measuring
  double fallback_seconds = 0, analytic_seconds = 0; // where the trials do not have them
  double bound = 0;                                  // seconds that no config beats, by the analytic model
  double known_best = 0;                             // seconds of an exhaustive table's best

  std::vector<double> expected; // seconds of each trial, by the analytic model; infinite: refused
  std::vector<ReportColumn> columns;
  double flops = 0, bytes = 0; // of one launch: useful arithmetic, and memory touched once

  double space_size = 0; // members
  bool space_size_exact = false;
  int points_tried = 0; // of all combinations of the knobs, at random, for `removed`
  std::vector<RemovedPoints> removed;
  std::vector<ReportEstimate> estimates;                     // the best config's first
  std::vector<std::pair<std::string, double>> contributions; // of knobs to the best's time: see explain.h

  std::vector<std::pair<std::string, std::string>> machine; // what it ran on, in words
  int jobs = 0;                                             // compilers side by side
  std::size_t sibling_records = 0;
  int bad_records = 0;
};

ReportData report_data(const Tuning& tuning);

// "BM=64,BN=32,order=swizzled"
std::string point_text(const std::vector<Knob>& knobs, const Point& point);
// Of one value; "?" where the knob has none such.
std::string value_text(const Knob& knob, std::size_t index);

} // namespace kiln::tune
