// Holds the memory plan of a launch and the contents of its inputs.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/loaded_candidate.h>

#include <cstdint>

namespace kiln::tune {

// Patterns that outputs are filled with before a launch: each launch that is compared is done with both.
constexpr Pattern patterns[] = {Pattern::first, Pattern::second};

// The memory plan of a launch and its contents. Throws UserError before allocating if measuring takes more
// memory than the machine has.
struct Inputs {
  Inputs(const Situation& situation, const ir::Kernel& kernel, Values kind = Values::usual);
  // The same launch with other contents of its inputs.
  Inputs(const Inputs& like, Contents other);
  Inputs(const Inputs&) = delete; // other objects refer to it

  Values values = Values::usual;
  MemoryPlan plan;
  Contents contents;
};

// Returns whether there is enough memory for another copy of a launch's arrays.
bool has_room_apart(Device device, std::int64_t bytes);

} // namespace kiln::tune
