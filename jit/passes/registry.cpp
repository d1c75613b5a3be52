// The list of passes and the runner of pipelines.
#include <kiln/jit/passes/pass.h>

#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/axis_info.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>
#include <string>

namespace kiln::passes {

const std::vector<PassInfo>& all_passes() {
  static const auto& passes = *new std::vector<PassInfo>{
      // never destroyed: static objects may compile
      {"bind", "puts sizes in the place of dimension names, and layout classes on views", bind},
      {"expand-grid", "turns program_tile into program ids and defines the grid", expand_grid},
      {"canonicalize", "folds constants and brings every operation into its simplest form", canonicalize},
      {"cse", "lets repeated operations give way to the first one", cse},
      {"tile-accesses", "lets elements by indices that count be tiles, and drops masks that views imply",
       tile_accesses},
      {"licm", "moves what a loop does not change out of it", licm},
      {"check-bounds", "asserts that gathers and scatters stay inside their views", check_bounds},
      {"fuse-dot", "makes a dot's sum with something its accumulator", fuse_dot},
      {"show-comparisons", "lets the conditions of asserts be comparisons where they are repeated ones",
       show_comparisons},
      {"dce", "removes what nothing needs", dce},
      {"axis-info", "notes divisibility, contiguity and constancy at each operation", annotate_axis_info},
  };
  return passes;
}

const PassInfo& find_pass(std::string_view name) {
  std::string known;
  for (const PassInfo& pass : all_passes()) {
    if (pass.name == name) return pass;
    known += (known.empty() ? "" : ", ") + std::string(pass.name);
  }
  throw UserError("there is no pass \"" + std::string(name) + "\"; choose among: " + known);
}

void run_passes(ir::Kernel& kernel, std::string_view names, const PassOptions& options) {
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    find_pass(name).run(kernel, options);
    ir::verify(kernel);
  }
}

} // namespace kiln::passes
