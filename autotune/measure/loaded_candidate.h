// Holds a candidate in a worker, parsed and compiled, and converts its failures to measurements.
#pragma once

#include <kiln/autotune/measure/memory_plan.h>
#include <kiln/autotune/measure/message.h>
#include <kiln/autotune/measure/timing.h>
#include <kiln/autotune/output_check.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::tune {

// The parameters that all trials of a tuner share.
struct Situation {
  Device device;
  std::vector<Argument> arguments;
  std::uint64_t seed = 0;
  double tolerance = 0;             // relative difference of floats; 0: determined for each element
  bool positive = false;            // made-up floats are positive
  std::vector<OutputCheck> outputs; // what the user declared
  // Computes the outputs in place in host memory. `places` has the place of each argument: a block and the
  // byte of its first element; -1 for scalars. Empty: they are those of the reference.
  using Places = std::vector<std::pair<int, std::int64_t>>;
  std::function<void(std::vector<std::vector<unsigned char>>& blocks, const Places& places,
                     const std::vector<Argument>& arguments)>
      host_reference;
  std::string right = "the default"; // the name of what outputs are compared with
  // The rounding of the default (perturb.h) if outputs are compared with those of another kernel, which may
  // be more exact; otherwise 0.
  double default_rounding = 0, default_rounding_inside = 0;
  // The default computes the same if ignored outputs hold what its last launch has left there, so candidates
  // have to, too.
  bool keeps_ignored = false;
  TimingPlan timing;
};

// A candidate that was read from a message.
struct LoadedCandidate {
  std::unique_ptr<IrKernel> kernel;
  Config config;
  std::optional<Grid> grid;
  std::string fault; // the fault to inject; usually empty

  Candidate ready() const { return {kernel.get(), config, grid}; }
  void launch(Stream& stream, const std::vector<std::uint64_t>& words) const;
  // Loads the code from the cache folder, or compiles it into that.
  std::shared_ptr<const CompiledKernel> compiled(const Situation& situation) const;
};
LoadedCandidate load_candidate(const Message& message, const Situation& situation);

// Compiles the candidate into the cache folder, or loads it from there.
Measurement compile(const LoadedCandidate& candidate, const Situation& situation);

// "registers", "scratch_bytes", ... of compiled code.
std::map<std::string, double> facts_of(const CompiledKernel& code);

// Returns argument words with imaginary addresses, for code that looks only at the alignment of addresses.
std::vector<std::uint64_t> imagined_words(const MemoryPlan& plan, const std::vector<Argument>& arguments);

// Returns the first line of a text, shortened if it is long.
std::string one_line(std::string text);
Measurement failed(Status status, std::string error);
// Converts the exception that is being handled to a status and one line. `otherwise` is the status of errors
// without a more specific one.
Measurement failure(Status otherwise);

} // namespace kiln::tune
