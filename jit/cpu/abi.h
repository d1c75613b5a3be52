// What compiled CPU code and the runtime agree on: the entry point, its context, and the hooks it calls.
#pragma once

#include <cstdint>

namespace kiln::cpu {

// One per worker and launch. `arguments` is laid out as dsl/ir/arguments.h says.
struct LaunchContext {
  std::int64_t grid[8];  // programs along each axis, 1 beyond the grid's rank
  std::int64_t group[8]; // programs of a group along each axis; 1 but where the kernel's Grouping allows more
  char* scratch;         // this worker's scratch: scratch_bytes, aligned to 64
  std::int64_t* stop;    // set nonzero by a failed assert: programs not yet started do not run
  void* launch;          // the runtime's own, for the hooks
  std::int64_t stream_bytes; // stores to a view of at least this many bytes bypass the cache
};

// Runs groups [begin, end) in row-major order of the grid of groups. There are cdiv(grid[i], group[i]) along
// axis i; where all groups are of one program, these are programs.
using EntryPoint = void (*)(const std::uint64_t* arguments, const LaunchContext* context, std::int64_t begin,
                            std::int64_t end);

inline constexpr const char* entry_name = "kiln_entry";

// Names under which compiled code calls back; the engine resolves them (see hooks.h for what they do).
inline constexpr const char* assert_hook = "kiln_hook_assert";
inline constexpr const char* print_hook = "kiln_hook_print";

} // namespace kiln::cpu
