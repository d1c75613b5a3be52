// Defines the interface between compiled CPU code and the runtime: entry point, context and hooks.
#pragma once

#include <cstdint>

namespace kiln::cpu {

// The context that an entry point receives besides the arguments; there is one per worker and launch.
struct LaunchContext {
  std::int64_t grid[8];  // programs along each axis; 1 beyond the grid's rank
  std::int64_t group[8]; // programs of a group along each axis; 1 unless the kernel's Grouping allows more
  char* scratch;         // this worker's scratch: CompiledObject::scratch_bytes, 64-byte aligned
  std::int64_t* stop;    // a failed assert sets it nonzero: programs that have not started do not run
  void* launch;          // data of the runtime, for the hooks
  std::int64_t stream_bytes; // stores to a view of at least this many bytes bypass the caches
  std::int64_t one_thread;   // nonzero: no other thread runs programs of this launch
};

// Runs groups [begin, end) in row-major order of the grid of groups. There are cdiv(grid[i], group[i]) groups
// along axis i; if all groups have one program, groups are programs. dsl/ir/arguments.h describes the layout
// of `arguments`.
using EntryPoint = void (*)(const std::uint64_t* arguments, const LaunchContext* context, std::int64_t begin,
                            std::int64_t end);

inline constexpr const char* entry_name = "kiln_entry";

// The names of the functions that compiled code calls. The engine resolves them; hooks.h describes what they
// do.
inline constexpr const char* assert_hook = "kiln_hook_assert";
inline constexpr const char* print_hook = "kiln_hook_print";
inline constexpr const char* begin_updates_hook = "kiln_hook_begin_updates";
inline constexpr const char* end_updates_hook = "kiln_hook_end_updates";

} // namespace kiln::cpu
