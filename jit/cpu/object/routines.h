// The routines that products call (dot/: the loop nest, its microkernel, packing) take more time to compile
// than the rest of a kernel and are the same in most kernels. So each is compiled by itself, once, while its
// first kernel is: its object file is found in the process by its name, and in the cache on disk under a key
// that is made from all of its LLVM IR. A kernel's code is a list of objects, its own and those of its
// routines, which are linked together and stored together; no kernel depends on what becomes of a routine's
// own entry in the cache.
#pragma once

#include <kiln/jit/cache/hash.h>
#include <kiln/jit/cpu/target.h>

#include <cstdint>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

namespace llvm {
class Module;
}

namespace kiln::cpu {

inline constexpr std::string_view routine_prefix = "kiln.dot.";

// Objects that may still be compiling.
using RoutineObjects = std::vector<std::pair<cache::Key, std::shared_future<std::vector<char>>>>;

// Takes the routines out of a module, which is left with their declarations, and has those that are not kept
// compiled by other threads. `module` has no debug info. Thread-safe.
RoutineObjects take_routines(llvm::Module& module, const Target& target);
// Waits for them; throws what compiling threw.
std::vector<std::vector<char>> wait_for(const RoutineObjects& routines);

// How many routines were compiled and how many were found, in the process or on disk; since it started.
struct RoutineStatistics {
  std::int64_t compiled = 0, reused = 0, loaded = 0;
};
RoutineStatistics routine_statistics();

// Forgets the objects kept in the process, for tests; the cache on disk still has them.
void forget_routines();

} // namespace kiln::cpu
