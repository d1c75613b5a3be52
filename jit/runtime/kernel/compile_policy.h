// Whether a launch may compile: for services that must never do so while they answer requests.
//
//   matmul.warm_up(Device::cpu(), {BM = 64, BN = 64, BK = 64});
//   set_compile_policy(CompilePolicy::forbid);       // or KILN_COMPILE_POLICY=forbid
//   matmul.launch(stream, {BM = 64, BN = 64, BK = 64}, a, b, c);
//
// Compiled code that is found in the cache on disk is loaded under every policy. Thread-safe.
#pragma once

#include <cstdint>

namespace kiln {

enum class CompilePolicy : std::uint8_t {
  allow,
  warn,   // log a warning for each compile
  forbid, // UserError that names the kernel, the config and the layout classes
};

// The policy of the process: what was set last, else KILN_COMPILE_POLICY, else allow.
CompilePolicy compile_policy();
void set_compile_policy(CompilePolicy policy);

// Sets the policy of the process while it lives; scopes end in the reverse order.
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

// What compiling has cost this process so far.
struct CompileStatistics {
  std::int64_t compiled = 0;  // kernels that LLVM compiled
  std::int64_t disk_hits = 0; // kernels that the cache on disk had
  double compile_ms = 0;      // in code generation, all threads together
  double load_ms = 0;         // in reading the cache and linking
};
CompileStatistics compile_statistics();

} // namespace kiln
