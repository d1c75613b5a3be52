// A candidate as a worker has it: parsed, compiled, and how what goes wrong with it is told.
#pragma once

#include <kiln/autotune/measure/memory_plan.h>
#include <kiln/autotune/measure/message.h>
#include <kiln/autotune/measure/timing.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// What all trials of a tuner have in common.
struct Situation {
  Device device;
  std::vector<Argument> arguments;
  std::uint64_t seed = 0;
  double tolerance = 0; // 0: by the dtypes
  TimingPlan timing;
};

// A candidate out of a message.
struct LoadedCandidate {
  std::unique_ptr<IrKernel> kernel;
  Config config;
  std::optional<Grid> grid;
  std::string fault; // "" or what goes wrong on purpose

  Candidate ready() const { return {kernel.get(), config, grid}; }
  void launch(Stream& stream, const std::vector<std::uint64_t>& words) const;
  // Out of the cache folder, or into it.
  std::shared_ptr<const CompiledKernel> compiled(const Situation& situation) const;
};
LoadedCandidate load_candidate(const Message& message, const Situation& situation);

// Compiles it into the cache folder, or loads it from there.
Measurement compile(const LoadedCandidate& candidate, const Situation& situation);

// "registers", "scratch_bytes", ... of compiled code.
std::map<std::string, double> facts_of(const CompiledKernel& code);

// Where blocks might lie, for what looks at addresses' alignment and no further.
std::vector<std::uint64_t> imagined_words(const MemoryPlan& plan, const std::vector<Argument>& arguments);

// The first line of a text, and not too much of it.
std::string one_line(std::string text);
Measurement failed(Status status, std::string error);
// What went wrong, as a status and one line. Of the exception that is being handled.
Measurement failure(Status otherwise);

} // namespace kiln::tune
