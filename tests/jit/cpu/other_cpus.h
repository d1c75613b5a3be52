// Finds CPUs, by LLVM's names, whose code this host can run.
#pragma once

#include <kiln/jit/cpu/target.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::test {

// Tests of code for other CPUs do not need these instructions, which one vendor or virtual machine has and
// another hides: code is generated without them where the host lacks them. znver4 has sse4a, which moves
// fields of vectors, so that code with it ends with SIGILL on Intel's CPUs.
constexpr std::string_view dispensable_features[] = {"aes",  "fma4",       "gfni", "pclmul", "prfchw",
                                                     "sha",  "sha512",     "sm3",  "sse4a",  "sm4",
                                                     "vaes", "vpclmulqdq", "xop"};

// The target of that name, without the dispensable features that the host lacks. Nothing if the host lacks
// other features, or has another architecture. "host" is the target for which kernels are compiled, which
// KILN_CPU may name.
inline std::optional<cpu::Target> runnable_target(const std::string& name) {
  if (name == "host") return cpu::host_target();
#if defined(__x86_64__)
  cpu::Target target = cpu::named_target(name);
  for (const std::string& feature : cpu::missing_features(target, cpu::host_target())) {
    if (std::find(std::begin(dispensable_features), std::end(dispensable_features), feature) ==
        std::end(dispensable_features))
      return std::nullopt;
    target.features += (target.features.empty() ? "-" : ",-") + feature;
  }
  return target;
#else
  return std::nullopt;
#endif
}

// Older and other x86 CPUs, from SSE4 to AVX-512. Empty on other architectures.
inline std::vector<cpu::Target> other_cpus() {
  std::vector<cpu::Target> targets;
  for (const char* name :
       {"nehalem", "x86-64-v2", "sandybridge", "haswell", "skylake-avx512", "sapphirerapids", "znver4"})
    if (auto target = runnable_target(name)) targets.push_back(std::move(*target));
#if defined(__x86_64__)
  REQUIRE_FALSE(targets.empty());
#endif
  return targets;
}

} // namespace kiln::test
