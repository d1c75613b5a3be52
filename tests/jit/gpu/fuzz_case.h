// Random kernels in random and extreme shapes, compiled for a GPU in a process of their own.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::test {

struct FuzzCase {
  std::uint64_t seed = 0;
  std::unique_ptr<ir::Kernel> kernel;
  Config config;
  std::vector<LayoutClass> layouts;
  int warps = 4;
  bool debug = false;
  std::string arch;
};

// One seed gives one case on every machine.
FuzzCase fuzz_case(std::uint64_t seed);
std::string to_string(const FuzzCase& c); // tile IR included

struct FuzzResult {
  enum class Kind { Assembled, Refused, Failed } kind = Kind::Failed;
  std::string text; // why it was refused or failed; a signal's name where LLVM gave up
  double seconds = 0;
};

// Lowers, compiles and (where there is a ptxas) assembles. Nothing that happens there harms the caller.
FuzzResult run(const FuzzCase& c, int most_seconds = 120);

} // namespace kiln::test
