// The kernels that tests compile for GPUs: those registered with the `kiln` command, and those that a run of
// any program with KILN_KEEP=tile left in a folder.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kiln::test {

struct CollectedKernel {
  std::string name;
  std::string text; // tile IR as recorded
  Config config;    // that it ran with, or its default
  std::vector<LayoutClass> layouts;
};

std::vector<CollectedKernel> registered_kernels();
// Of all .kir files below `folder`, sorted by their text, each once.
std::vector<CollectedKernel> kept_kernels(const std::string& folder);
// Each kernel of `kernels` (texts that differ are kernels that differ), with `from` in place of `to` where
// that is still a kernel: other floats for floats, other integers for integers.
std::vector<CollectedKernel> with_other_dtypes(const std::vector<CollectedKernel>& kernels);

// A kernel made ready for a back end. UserError if the config does not fit it.
std::unique_ptr<ir::Kernel> lowered(const CollectedKernel& kernel, const Config& config,
                                    const std::vector<LayoutClass>& layouts);

} // namespace kiln::test
