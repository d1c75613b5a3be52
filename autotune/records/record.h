// Defines the record of one trial: its key, its config and its result.
#pragma once

#include <kiln/autotune/records/key.h>
#include <kiln/autotune/space/trial.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::tune {

struct Record {
  std::shared_ptr<const RecordKey> key; // never null; records with the same key share it
  Problem problem;                      // the measured problem if it differs from the key's, else empty
  std::string config;                   // "BM=64,BN=64,order=swizzled", as from BoundSpace::text
  Measurement result;                   // includes failures, from which searches learn
  bool confirmed = false;               // measured again, interleaved with the other finalists
  std::string source;                   // why it was tried; see Trial
  double predicted = 0;                 // seconds that the model predicted; 0: no prediction
  std::int64_t time = 0;                // milliseconds since 1970; 0: append() sets it
  std::string session;                  // identifies the tuning run; empty: append() sets it
  int trial = 0;                        // index within that tuning run

  const Problem& measured_problem() const { return problem.sizes.empty() ? key->problem : problem; }
};

// Returns the numbers in a config's text and omits words. Throws UserError for more names than a Config can
// hold.
Config config_of(std::string_view text);
// Returns the point that the text describes in a space with these knobs; nothing if a knob is missing or a
// value is not one of its knob's.
std::optional<Point> point_of(const std::vector<Knob>& knobs, std::string_view text);
// Returns the text of a point, with knobs in order: "BM=64,order=swizzled".
std::string config_text(const std::vector<Knob>& knobs, const Point& point);

} // namespace kiln::tune
