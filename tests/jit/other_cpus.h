// Other CPUs whose code this host can run.
#pragma once

#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/target.h>

#include <catch2/catch.hpp>

#include <vector>

namespace kiln::test {

// Older and other x86 CPUs, from SSE4 to AVX-512, without those that have an instruction the host lacks
// (znver4's sse4a moves fields of vectors, so that its code ends with SIGILL on Intel's CPUs); none on other
// architectures.
inline std::vector<cpu::Target> other_cpus() {
  std::vector<cpu::Target> targets;
  for (const char* name :
       {"nehalem", "x86-64-v2", "sandybridge", "haswell", "skylake-avx512", "sapphirerapids", "znver4"}) {
    try {
      cpu::Target target = cpu::named_target(name);
      if (cpu::missing_features(target, cpu::host_target()).empty()) targets.push_back(std::move(target));
    } catch (const UserError&) { // another architecture
    }
  }
#if defined(__x86_64__)
  REQUIRE_FALSE(targets.empty());
#endif
  return targets;
}

} // namespace kiln::test
