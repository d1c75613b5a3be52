// Collects the kernels that tests compile for GPUs.
//
// These are kernels registered with the `kiln` command, and kernels that programs left in a folder when they
// ran with KILN_KEEP=tile.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/dtype.h>
#include <kiln/dsl/ir/ir.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
// The dtypes that the text of the kernel mentions, each with another one of its kind: a float dtype with float
// dtypes, and an integer dtype with integer dtypes.
std::vector<std::pair<DType, DType>> possible_dtype_changes(const CollectedKernel& kernel);
// The kernel with a dtype replaced by another one. Empty if it would not be valid.
std::optional<CollectedKernel> with_other_dtype(const CollectedKernel& kernel, DType from, DType to);

// Lowers a kernel for a back end. Throws a UserError if the config does not fit it.
std::unique_ptr<ir::Kernel> lowered(const CollectedKernel& kernel, const Config& config,
                                    const std::vector<LayoutClass>& layouts);

} // namespace kiln::test
