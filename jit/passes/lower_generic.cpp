// The standard order of the generic passes.
#include <kiln/jit/passes/passes.h>

namespace kiln::passes {

namespace {
constexpr PassInfo pipeline[] = {
    {"bind", "", bind},
    {"expand-grid", "", expand_grid},
};
} // namespace

std::unique_ptr<ir::Kernel> lower_generic(const ir::Kernel& recorded, const PassOptions& options,
                                          const PassObserver& observe) {
  std::unique_ptr<ir::Kernel> kernel = recorded.clone();
  for (const PassInfo& pass : pipeline) {
    pass.run(*kernel, options);
    if (observe) observe(pass.name, *kernel);
  }
  return kernel;
}

} // namespace kiln::passes
