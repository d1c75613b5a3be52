// Defines Trial and Measurement, the result of measuring one config.
#pragma once

#include <kiln/autotune/space/space.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

KILN_API_BEGIN
namespace kiln::tune {

enum class Status : std::uint8_t {
  ok,
  refused,       // by the compiler: the config is not legal on this device
  compile_error, // includes a crash of the compiler
  compile_timeout,
  launch_error, // the device accepted the code, and its execution failed
  crash,        // of the process that ran the code
  timeout,      // the code did not finish in time
  out_of_memory,
  wrong_result, // includes writes outside of the outputs
  not_a_number, // NaN where the reference has a number
  device_lost,
};
const char* name(Status status); // "wrong result"

// What a verification compared of one output, element by element.
struct OutputComparison {
  int parameter = 0; // counted from 0
  DType dtype = DType::F32;
  std::size_t elements = 0;   // of the output
  std::size_t compared = 0;   // those that are finite and that the reference writes
  std::size_t vague = 0;      // those of them that rounding errors of the inputs change by about their value
  std::size_t exceptions = 0; // those of them that differ by more than the bound, or integers that differ
  bool unordered = false;     // compared without regard to their order
  // The compared element that is closest to its bound: its index in memory (in sorted order if `unordered`),
  // its value and the reference's, and the difference that is allowed.
  std::size_t worst = 0;
  double value = 0, reference = 0, bound = 0;

  // If a smaller share is compared, a search warns.
  static constexpr double few = 0.25;
  double share() const { // of the elements that were compared
    return elements ? static_cast<double>(compared) / static_cast<double>(elements) : 0;
  }
};

struct Measurement {
  Status status = Status::ok;
  std::string error; // one line; empty if the status is ok

  double seconds = 0;       // median time of one launch, in a live run corrected for drift (measure/drift.h)
  double low = 0, high = 0; // its 95 % confidence interval
  int launches = 0;         // number of timed launches
  double relative = 0;      // time relative to the drift reference that was timed next to it; 0: none was
  // Facts that the compiler reports about the code, such as "registers" and "spill_bytes", and events during
  // the measurement, such as "disturbed".
  std::map<std::string, double> facts;
  std::vector<OutputComparison> outputs; // of the last check of a live run, one for each compared output

  double compile_seconds = 0, run_seconds = 0; // the time that the trial took
  bool ok() const { return status == Status::ok; }
};

struct Trial {
  Point point;
  Measurement result;
  std::string source;    // why it was tried: "seed", "analytic", "model", "descent", "random", ...
  double predicted = 0;  // seconds that the model predicted; 0: it made no prediction
  double at_seconds = 0; // time since the search began
  int batch = 0;
};

} // namespace kiln::tune
KILN_API_END

namespace kiln::tune {

// The rest is for Kiln itself and is not exported.

// Returns the status of this name, or nothing.
std::optional<Status> parse_status(std::string_view name);

// Returns whether `fact`, from Measurement::facts, describes the compiled code and so is known before the
// code runs. Other facts describe the measurement.
bool is_of_code(std::string_view fact);

} // namespace kiln::tune
