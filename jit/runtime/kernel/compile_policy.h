// Controls whether a launch may compile. A service can forbid compiling while it answers requests.
//
//   matmul.warm_up(Device::cpu(), {BM = 64, BN = 64, BK = 64});
//   set_compile_policy(CompilePolicy::forbid);       // or KILN_COMPILE_POLICY=forbid
//   matmul.launch(stream, {BM = 64, BN = 64, BK = 64}, a, b, c);
//
// Code in the kernel cache on disk is loaded under every policy. An op of several kernels may have queued the
// first ones when a later one must not compile; a rehearsal (rehearsal.h) finds all that it needs.
// Thread-safe.
#pragma once

#include <kiln/dsl/api.h>

#include <cstdint>

KILN_API_BEGIN
namespace kiln {

enum class CompilePolicy : std::uint8_t {
  allow,  // compile whenever a launch needs it
  warn,   // log a warning for each compilation
  forbid, // throw a UserError that names the kernel, the config, and the layout classes or an op's sizes
};

// compile_policy returns the policy of the process: the last one that was set, or else that of
// KILN_COMPILE_POLICY, or else `allow`. set_compile_policy sets it.
CompilePolicy compile_policy();
void set_compile_policy(CompilePolicy policy);

// Sets the policy of the process while this object lives, and then restores the previous one. Scopes must end
// in reverse order.
class ScopedCompilePolicy {
public:
  explicit ScopedCompilePolicy(CompilePolicy policy) : previous_(compile_policy()) {
    set_compile_policy(policy);
  }
  ~ScopedCompilePolicy() { set_compile_policy(previous_); }
  ScopedCompilePolicy(const ScopedCompilePolicy&) = delete;
  ScopedCompilePolicy& operator=(const ScopedCompilePolicy&) = delete;

private:
  CompilePolicy previous_;
};

// The cost of compiling in this process so far. Thread-safe.
struct CompileStatistics {
  std::int64_t compiled = 0;  // kernels that LLVM compiled
  std::int64_t disk_hits = 0; // kernels that were loaded from the cache on disk
  double compile_ms = 0;      // milliseconds of code generation, summed over all threads
  double load_ms = 0;         // milliseconds of reading the cache and linking
};
CompileStatistics compile_statistics();

} // namespace kiln
KILN_API_END
