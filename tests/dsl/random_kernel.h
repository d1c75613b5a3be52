// Generates random valid kernels, for tests of properties that every kernel has: text that reads back, passes
// that keep the results, back ends that agree.
//
// A kernel reads const views at any place (with bounds checks) and computes. Each program writes its own tile
// of the outputs, so that the order of programs does not matter. A seed determines the kernel, its config and
// the extents, on every machine.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln::test {

struct RandomKernelOptions {
  int steps = 25; // roughly the number of operations
  bool exact =
      false; // only operations whose result is the same, bit for bit, in every execution (except for NaN)
  bool atomics = true; // includes atomics on integers, which commute
  bool dots = true;    // includes dot
  bool control = true; // includes for, while and if
  bool narrow = true;  // includes f16, bf16, fp8 and integers of less than 32 bits
  bool large = false;  // tiles have up to 16384 elements instead of 2048
  bool prints = false; // includes device_print, device_assert and expects
};

struct RandomKernel {
  std::uint64_t seed = 0;
  std::unique_ptr<ir::Kernel> kernel;
  Config config;                                  // the size of each dimension
  std::vector<std::vector<std::int64_t>> extents; // the extents of each parameter; empty for scalars
  std::vector<bool> written;                      // whether the kernel writes to each parameter
};

RandomKernel random_kernel(std::uint64_t seed, const RandomKernelOptions& options = {});

} // namespace kiln::test
