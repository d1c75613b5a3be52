// Random well-typed kernels, for tests that must hold for every kernel: text round trips, passes that keep
// meaning, executions that agree.
//
// A kernel reads const views anywhere (bounds-checked), computes, and each program writes its own tile of the
// outputs, so that the order of programs does not matter. One seed gives one kernel, config and set of
// extents on every machine.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln::test {

struct RandomKernelOptions {
  int steps = 25;      // operations to draw, roughly
  bool exact = false;  // only what every execution computes to the same bits (all NaN count as equal)
  bool atomics = true; // commutative integer ones
  bool dots = true;
  bool control = true; // for, while, if
  bool narrow = true;  // f16, bf16, fp8 and the integers below 32 bits
  bool large = false;  // tiles of up to 16384 elements rather than 2048
  bool prints = false; // device_print, device_assert, expects
};

struct RandomKernel {
  std::uint64_t seed = 0;
  std::unique_ptr<ir::Kernel> kernel;
  Config config;                                  // a size for each dimension
  std::vector<std::vector<std::int64_t>> extents; // of each parameter that is a view; empty for scalars
  std::vector<bool> written;                      // for each parameter
};

RandomKernel random_kernel(std::uint64_t seed, const RandomKernelOptions& options = {});

} // namespace kiln::test
