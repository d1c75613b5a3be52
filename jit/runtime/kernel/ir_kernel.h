// Launches kernels that are given as tile IR, on every device, as `kernel` launches lambdas. Internal: for
// tools that have the text of a kernel but not its lambda.
//
//   IrKernel add(ir::parse(text));
//   std::vector<std::uint64_t> words = ...;          // in the order of dsl/ir/arguments.h
//   add.launch(stream, {BN = 1024}, nullptr, words);
//   stream.synchronize();
//
// A config may contain names that the kernel does not have, such as other knobs of a tuner; they are ignored.
// Thread-safe.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/dsl/layout_class.h>
#include <kiln/jit/runtime/kernel/compile.h>
#include <kiln/jit/runtime/kernel/kernel.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kiln {

class IrKernel {
public:
  // `pinned` has one entry per view: the layout class that the type of the parameter pins, if any. The text
  // alone states pinned classes Unit and Aligned, but not Any. UserError for invalid IR.
  explicit IrKernel(std::shared_ptr<const ir::Kernel> recorded,
                    const std::vector<std::optional<LayoutClass>>& pinned = {});

  const ir::Kernel& recorded() const { return *recorded_; }
  // The part of a config that concerns the kernel: its dimensions, the options, and what it was recorded
  // with.
  Config config_of(const Config& config) const;

  // As Kernel::launch. `words` are copied. UserError also if their number is wrong.
  void launch(Stream& stream, const Config& config, const Grid* grid,
              std::span<const std::uint64_t> words) const;
  // The code for views with the layout classes of those in `words`, which is compiled or loaded by this call.
  std::shared_ptr<const CompiledKernel> compile(Device device, const Config& config,
                                                std::span<const std::uint64_t> words) const;
  // The kernel with the sizes of `config` bound, for such views: what ir::interpret takes.
  std::unique_ptr<ir::Kernel> bound(const Config& config, std::span<const std::uint64_t> words) const;

private:
  std::vector<std::uint64_t> block_of(std::span<const std::uint64_t> words) const;

  std::shared_ptr<const ir::Kernel> recorded_;
  std::shared_ptr<detail::KernelCore> core_;
};

} // namespace kiln
