// The process's compile policy.
#include <kiln/jit/runtime/kernel/compile_policy.h>

#include <kiln/jit/base/log.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace kiln {
namespace {

CompilePolicy policy_of_environment() {
  const char* value = std::getenv("KILN_COMPILE_POLICY");
  std::string text = value ? value : "";
  if (text.empty() || text == "allow") return CompilePolicy::allow;
  if (text == "warn") return CompilePolicy::warn;
  if (text == "forbid") return CompilePolicy::forbid;
  log_warning_once("KILN_COMPILE_POLICY is '" + text + "'; use allow, warn or forbid; taken as allow");
  return CompilePolicy::allow;
}

std::atomic<CompilePolicy>& policy() {
  static std::atomic<CompilePolicy> current{policy_of_environment()};
  return current;
}

} // namespace

CompilePolicy compile_policy() { return policy().load(std::memory_order_acquire); }
void set_compile_policy(CompilePolicy p) { policy().store(p, std::memory_order_release); }

} // namespace kiln
