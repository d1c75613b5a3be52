// One trial as it is kept: what was asked, which config, what came of it.
#pragma once

#include <kiln/autotune/records/key.h>
#include <kiln/autotune/space/trial.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::tune {

struct Record {
  std::shared_ptr<const RecordKey> key; // never null; records of one question share it
  Problem problem;                      // as measured, where it is not the key's; else empty
  std::string config;                   // "BM=64,BN=64,order=swizzled", as BoundSpace::text gives it
  Measurement result;                   // failures too: they teach
  bool confirmed = false;               // measured again, interleaved with the other finalists
  std::string source;                   // why it was tried, see Trial
  double predicted = 0;                 // seconds the model expected; 0: it had no opinion
  std::int64_t time = 0;                // milliseconds since 1970; 0: append fills it in
  std::string session;                  // of the tuning that made it; empty: append fills it in
  int trial = 0;                        // the how-manieth of that tuning

  const Problem& measured_problem() const { return problem.sizes.empty() ? key->problem : problem; }
};

// The numbers of a config's text, words left out. UserError for more names than a Config holds.
Config config_of(std::string_view text);
// The point that the text names in a space of these knobs; nothing if it lacks one, or a value is no
// member's.
std::optional<Point> point_of(const std::vector<Knob>& knobs, std::string_view text);
// The inverse, knobs in order: "BM=64,order=swizzled".
std::string config_text(const std::vector<Knob>& knobs, const Point& point);

} // namespace kiln::tune
