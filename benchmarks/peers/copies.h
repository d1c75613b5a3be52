// Adds copy loops to a race, as the limit of operations that are bound by memory bandwidth.
#pragma once

#include "race.h"

#include <samples/machine_limits.h>

namespace benchmarks {

// Both loops copy one array to another, in pieces that Kiln's thread pool distributes. The stores of "copy"
// go through the caches, so that each line of the target is read first; "streaming copy" uses non-temporal
// stores.
inline void add_copies(std::vector<Contender>& contenders, kiln::Tensor<float, 1>& to,
                       const kiln::Tensor<float, 1>& from) {
  using namespace samples::limits;
  auto add = [&](const char* name, Copy copy) {
    contenders.push_back(
        {.name = name, .run = [&to, &from, copy] { copy_all(copy, to, from); }, .role = Role::limit});
  };
  add("copy", copy_plain);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    add("streaming copy", copy_streaming_wide);
  else if (__builtin_cpu_supports("avx"))
    add("streaming copy", copy_streaming);
#endif
}

} // namespace benchmarks
