// What a pass is: a named function from a kernel's tile IR to better tile IR, in place.
//
// A pass keeps the kernel valid (dsl/ir/verifier.h) and its meaning (dsl/SEMANTICS.md). Passes are listed
// once, in registry.cpp; `kiln-opt --passes=a,b` and the compiler's pipelines find them there by name.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <string_view>
#include <vector>

namespace kiln::passes {

// What a kernel is compiled for. Passes that need none of it ignore it.
struct PassOptions {
  Config config;
  std::vector<LayoutClass> layouts; // per parameter that is a view, in order; empty: as the types say
  bool debug = false;               // check what can be checked at run time
};

struct PassInfo {
  std::string_view name; // as on the command line: "licm"
  std::string_view description;
  void (*run)(ir::Kernel& kernel, const PassOptions& options);
};

const std::vector<PassInfo>& all_passes();
// The pass of that name; UserError lists the names there are.
const PassInfo& find_pass(std::string_view name);
// Runs passes in order, "cse,dce"; the kernel is verified after each.
void run_passes(ir::Kernel& kernel, std::string_view names, const PassOptions& options);

} // namespace kiln::passes
