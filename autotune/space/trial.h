// What measuring one config gave.
#pragma once

#include <kiln/autotune/space/space.h>

#include <map>
#include <string>

namespace kiln::tune {

enum class Status : std::uint8_t {
  ok,
  refused,       // by the compiler: not legal on this device
  compile_error, // including a compiler that crashed
  compile_timeout,
  launch_error, // the device took the code and then failed
  crash,        // of the process that ran it
  timeout,      // it did not end
  out_of_memory,
  wrong_result, // including what it wrote outside of its outputs
  not_a_number, // where the reference has numbers
  device_lost,
};
const char* name(Status status); // "wrong result"
std::optional<Status> parse_status(std::string_view name);

struct Measurement {
  Status status = Status::ok;
  std::string error; // one line, of what is not ok

  double seconds = 0;       // median of one launch; of a live run: see measure/drift.h
  double low = 0, high = 0; // 95 % confidence interval of that median
  int launches = 0;         // that were timed
  double relative = 0;      // to the drift anchor beside it; 0: there was none
  // What the compiler tells of the code, and what happened beside: see is_of_code().
  std::map<std::string, double> facts;

  double compile_seconds = 0, run_seconds = 0; // what the trial cost
  bool ok() const { return status == Status::ok; }
};

// Whether it is a fact of the compiled code, "registers" or "spill_bytes", which is known before it runs;
// others, as "disturbed", are of its measurement.
bool is_of_code(std::string_view fact);

struct Trial {
  Point point;
  Measurement result;
  std::string source;    // why it was tried: "seed", "analytic", "model", "descent", "random", ...
  double predicted = 0;  // seconds the model expected; 0: it had no opinion
  double at_seconds = 0; // since the search began
  int batch = 0;
};

} // namespace kiln::tune
