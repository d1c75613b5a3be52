// Runs the generic passes in their standard order.
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/passes.h>

namespace kiln::passes {

namespace {
constexpr std::string_view pipeline[] = {
    "bind", "expand-grid",  "check-bounds", "lower-views", "canonicalize",     "cse", "tile-accesses",
    "licm", "canonicalize", "cse",          "fuse-dot",    "show-comparisons", "dce"};
bool is_for_debugging(std::string_view name) { return name == "check-bounds" || name == "show-comparisons"; }
} // namespace

std::unique_ptr<ir::Kernel> lower_generic(const ir::Kernel& recorded, const PassOptions& options,
                                          const PassObserver& observe) {
  std::unique_ptr<ir::Kernel> kernel = recorded.clone();
  for (std::string_view name : pipeline) {
    if (is_for_debugging(name) && !options.debug) continue;
    find_pass(name).run(*kernel, options);
#ifndef NDEBUG
    ir::verify(*kernel);
#endif
    if (observe) observe(name, *kernel);
  }
  return kernel;
}

} // namespace kiln::passes
