// Declares the separate compilation of the routines that products call.
//
// Such routines are the loop nest of a product, its microkernels and its packing (dot/).
//
// These routines take more time to compile than the rest of a kernel, and are the same in most kernels. Each
// is therefore compiled by itself, once, while its first kernel is compiled. Its object file is found in the
// process by the routine's name, and in the cache on disk under a key that is made from all of its LLVM IR.
// The code of a kernel is a list of objects, its own and those of its routines, which are linked together and
// stored together, so that no kernel depends on a routine's own entry in the cache.
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

// Objects whose compilation may not have finished.
using RoutineObjects = std::vector<std::pair<cache::Key, std::shared_future<std::vector<char>>>>;

// Removes the bodies of routines from a module, leaving declarations, and has other threads compile those
// that are not known yet. `module` must not have debug info. Thread-safe.
RoutineObjects take_routines(llvm::Module& module, const Target& target);
// Waits for the objects. Throws what their compilation threw.
std::vector<std::vector<char>> wait_for(const RoutineObjects& routines);

// The numbers of routines that were compiled, reused from the process, and loaded from disk since the process
// started.
struct RoutineStatistics {
  std::int64_t compiled = 0, reused = 0, loaded = 0;
};
RoutineStatistics routine_statistics();

// Drops the objects that the process keeps, for tests. The cache on disk still has them.
void forget_routines();

} // namespace kiln::cpu
