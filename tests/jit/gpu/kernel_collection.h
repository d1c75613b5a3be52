// Collects the kernels that tests compile for GPUs.
//
// These are kernels registered with the `kiln` command, and kernels that programs left in a folder when they
// ran with KILN_KEEP=tile.
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
  Config config;    // the one that it ran with, or its default
  std::vector<LayoutClass> layouts;
};

std::vector<CollectedKernel> registered_kernels();
// The kernels of all .kir files below `folder`, sorted by their text, each once.
std::vector<CollectedKernel> kept_kernels(const std::string& folder);
// All variants of the kernels in which one float dtype is replaced by another, or one integer dtype by
// another, that are valid kernels and whose text is new.
std::vector<CollectedKernel> with_other_dtypes(const std::vector<CollectedKernel>& kernels);

// Lowers a kernel for a back end. Throws a UserError if the config does not fit it.
std::unique_ptr<ir::Kernel> lowered(const CollectedKernel& kernel, const Config& config,
                                    const std::vector<LayoutClass>& layouts);

} // namespace kiln::test
