// Lists the CPU's own passes on tile IR by name.
#include <kiln/jit/cpu/rewrite/passes.h>

namespace kiln::cpu {

const std::vector<passes::PassInfo>& cpu_passes() {
  // Never destroyed, because destructors of static objects may still compile kernels.
  static const auto& passes = *new std::vector<passes::PassInfo>{
      {"cpu-widen", "binds as bind does, with larger sizes for narrow tiles where this changes no result",
       bind_widened},
      {"cpu-split-products", "gives each product in a loop over K a loop of its own", split_products},
      {"cpu-flat-reductions", "splits a reduction over several axes into one for each axis",
       split_flat_reductions},
      {"cpu-short-reductions", "turns reductions over 2, 4 or 8 neighbours into operations on halves",
       halve_short_reductions},
  };
  return passes;
}

} // namespace kiln::cpu
