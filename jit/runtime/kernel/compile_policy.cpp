// Stores the process's compile policy.
#include <kiln/jit/runtime/kernel/compile_policy.h>

#include <kiln/jit/base/options.h>

#include <atomic>

namespace kiln {
namespace {

CompilePolicy policy_of_environment() {
  const std::string& text = environment_options().compile_policy;
  return text == "forbid" ? CompilePolicy::forbid
         : text == "warn" ? CompilePolicy::warn
                          : CompilePolicy::allow;
}

std::atomic<CompilePolicy>& policy() {
  static std::atomic<CompilePolicy> current{policy_of_environment()};
  return current;
}

} // namespace

CompilePolicy compile_policy() { return policy().load(std::memory_order_acquire); }
void set_compile_policy(CompilePolicy p) { policy().store(p, std::memory_order_release); }

} // namespace kiln
