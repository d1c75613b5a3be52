// Declares what a pass is: a named function that improves a kernel's tile IR in place.
//
// A pass keeps the kernel valid (dsl/ir/verifier.h) and keeps its meaning (dsl/SEMANTICS.md). The generic
// passes are listed once, in registry.cpp. A code generator has a list of its own (jit/cpu/rewrite/passes.h).
// Pipelines and `kiln-opt --passes=a,b` find passes by name in such lists.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <span>
#include <string_view>
#include <vector>

namespace kiln::passes {

// The options that a kernel is compiled for. A pass ignores those that it does not need.
struct PassOptions {
  Config config;
  // The layout class of each parameter that is a view, in order. Empty: the classes that the types name.
  std::vector<LayoutClass> layouts;
  bool debug = false; // whether to insert run-time checks
};

struct PassInfo {
  std::string_view name; // as on the command line: "licm"
  std::string_view description;
  void (*run)(ir::Kernel& kernel, const PassOptions& options);
};

const std::vector<PassInfo>& generic_passes();
// Finds a pass by name. UserError lists all names if there is none.
const PassInfo& find_pass(std::string_view name, std::span<const PassInfo> passes = generic_passes());
// Runs the passes that `names` lists, as in "cse,dce", and verifies the kernel after each.
void run_passes(ir::Kernel& kernel, std::string_view names, const PassOptions& options,
                std::span<const PassInfo> passes = generic_passes());

} // namespace kiln::passes
