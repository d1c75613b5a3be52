// Kernels of tile IR that launch as those of lambdas do, on every device. Not for users: for tools that have
// a kernel's text, in a process that has not the lambda.
//
//   IrKernel add(ir::parse(text));
//   std::vector<std::uint64_t> words = ...;          // laid out as dsl/ir/arguments.h says
//   add.launch(stream, {BN = 1024}, nullptr, words);
//   stream.synchronize();
//
// A config may name more than the kernel has: what it does not know is left out (a tuner's knobs).
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
  // `pinned` has a layout class for each view that its parameter's type pins; the text tells those of Unit
  // and Aligned, not one of Any. UserError for IR that is not valid.
  explicit IrKernel(std::shared_ptr<const ir::Kernel> recorded,
                    const std::vector<std::optional<LayoutClass>>& pinned = {});

  const ir::Kernel& recorded() const { return *recorded_; }
  // What of a config is the kernel's: its dimensions, the options, and what it was recorded with.
  Config config_of(const Config& config) const;

  // As Kernel's; `words` are copied. UserError also for a wrong number of them.
  void launch(Stream& stream, const Config& config, const Grid* grid,
              std::span<const std::uint64_t> words) const;
  // The code for views laid out as in `words`, compiled or loaded now.
  std::shared_ptr<const CompiledKernel> compile(Device device, const Config& config,
                                                std::span<const std::uint64_t> words) const;
  // With the config's sizes in it, for such views: what ir::interpret takes.
  std::unique_ptr<ir::Kernel> bound(const Config& config, std::span<const std::uint64_t> words) const;

private:
  std::vector<std::uint64_t> block_of(std::span<const std::uint64_t> words) const;

  std::shared_ptr<const ir::Kernel> recorded_;
  std::shared_ptr<detail::KernelCore> core_;
};

} // namespace kiln
