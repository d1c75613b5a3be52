// Lists the generic passes, and runs passes by name.
#include <kiln/jit/passes/pass.h>

#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/axis_info.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <string>

namespace kiln::passes {

const std::vector<PassInfo>& generic_passes() {
  // Never destroyed, because destructors of static objects may still compile kernels.
  static const auto& passes = *new std::vector<PassInfo>{
      {"bind", "replaces dimension names by sizes, and gives views their layout classes", bind},
      {"expand-grid", "replaces program_tile by program ids, and defines the grid", expand_grid},
      {"lower-views",
       "turns accesses to views that the kernel makes into accesses to parameters and pointers", lower_views},
      {"canonicalize", "folds constants and simplifies every operation", canonicalize},
      {"cse", "replaces repeated operations by the first one", cse},
      {"tile-accesses",
       "turns gathers and scatters at consecutive indices into tile accesses, and drops implied masks",
       tile_accesses},
      {"licm", "moves loop-invariant operations out of loops", licm},
      {"check-bounds", "asserts that gathers and scatters stay in bounds", check_bounds},
      {"fuse-dot", "turns an addition to a dot into the dot's accumulator", fuse_dot},
      {"show-comparisons", "makes the conditions of asserts comparisons, so that a failure shows both sides",
       show_comparisons},
      {"dce", "removes operations and carried values that nothing uses", dce},
      {"axis-info", "annotates each operation with divisibility, contiguity and constancy",
       annotate_axis_info},
  };
  return passes;
}

const PassInfo& find_pass(std::string_view name, std::span<const PassInfo> passes) {
  std::string known;
  for (const PassInfo& pass : passes) {
    if (pass.name == name) return pass;
    known += (known.empty() ? "" : ", ") + std::string(pass.name);
  }
  throw UserError("there is no pass \"" + std::string(name) + "\"; choose among: " + known);
}

void run_passes(ir::Kernel& kernel, std::string_view names, const PassOptions& options,
                std::span<const PassInfo> passes) {
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    find_pass(name, passes).run(kernel, options);
    ir::verify(kernel);
  }
}

} // namespace kiln::passes
