// Declares the functions that compiled code calls: for failed asserts, for prints, and around atomics.
#pragma once

#include <kiln/jit/cpu/abi.h>

#include <exception>
#include <mutex>
#include <string>

namespace kiln::cpu {

// The state that the workers of one launch share. LaunchContext::launch points to it.
struct LaunchState {
  const char* kernel = "";
  std::int64_t stop = 0; // LaunchContext::stop points here; set once, atomically
  std::mutex mutex;
  std::exception_ptr error; // the first failed assert, as a UserError
};

extern "C" {
// Reports the first zero among the bytes of a condition, which is a dense tile. Returns 1 if there is one;
// the program must then end. If the condition compares `left` and `right`, `relation` is " < " or the like;
// both are dense tiles with the extents of the condition and the given dtype. Otherwise `relation` is null.
std::int32_t kiln_hook_assert(const LaunchContext* context, std::int64_t program,
                              const std::uint8_t* condition, std::int64_t rank, const std::int64_t* extents,
                              const char* file, std::int64_t line, const char* message, const char* relation,
                              std::int64_t dtype, const void* left, const void* right);
// Prints one value (`dtype` as in DType, -1 for addresses) after `label`. A line is written as a whole, with
// its last value.
void kiln_hook_print(const LaunchContext* context, std::int64_t program, const char* label,
                     std::int64_t dtype, std::int64_t rank, const std::int64_t* extents, const void* data,
                     std::int64_t ends_line);
// Bracket the programs of a call whose kernel has atomic operations (jit/base/sole_updates.h). The first
// returns whether plain loads and stores may replace them, which is never so unless `ends` says that no
// program waits for others. The second takes that answer.
std::int32_t kiln_hook_begin_updates(const LaunchContext* context, std::int32_t ends);
void kiln_hook_end_updates(std::int32_t sole);
}

} // namespace kiln::cpu
