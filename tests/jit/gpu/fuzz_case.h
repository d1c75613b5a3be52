// Draws random kernels with random and extreme sizes, and compiles each for a GPU in a process of its own.
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

// A seed gives the same case on every machine.
FuzzCase fuzz_case(std::uint64_t seed);
std::string to_string(const FuzzCase& c); // with its tile IR

struct FuzzResult {
  enum class Kind { Assembled, Refused, Failed } kind = Kind::Failed;
  std::string text; // why it was refused or failed; the name of the signal if LLVM ended the process
  double seconds = 0;
};

// Lowers, compiles and, if there is a ptxas, assembles. A crash in doing so does not affect the caller.
FuzzResult run(const FuzzCase& c, int most_seconds = 120);

} // namespace kiln::test
