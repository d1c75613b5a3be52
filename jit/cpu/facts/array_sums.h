// Finds the arrays that a kernel uses for nothing but atomic sums whose old values nothing reads, such as a
// histogram. A thread may then add to a copy of its own, and add the copy to the array afterwards.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace kiln::cpu {

struct ArraySums {
  // The parameter to which each atomic operation adds.
  std::unordered_map<const ir::Op*, const ir::Value*> array_of;
  // The elements that a program adds to each such parameter, in the order of the parameters. Operations in
  // loops count once, and those in branches not at all.
  std::vector<std::pair<const ir::Value*, std::int64_t>> arrays;
};

// Empty if the kernel has a while loop, an atomic operation whose result is used, or accesses memory through
// pointers that are no view's: programs may then wait for each other's sums, or read them.
ArraySums array_sums(const ir::Kernel& kernel);

} // namespace kiln::cpu
