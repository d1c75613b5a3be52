// Implements IrKernel: makes a KernelCore from tile IR.
#include <kiln/jit/runtime/kernel/ir_kernel.h>

#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel/kernel_core.h>

#include <algorithm>

namespace kiln {

namespace {

using detail::ParameterInfo;

ParameterInfo parameter_of(const ir::Type& type, std::optional<LayoutClass> pinned) {
  if (type.is_view()) {
    if (!pinned && type.layout != LayoutClass::Any) pinned = type.layout;
    return {ParameterInfo::Kind::View, type.dtype, type.readonly, type.view_rank,
            pinned ? static_cast<int>(*pinned) : ParameterInfo::not_pinned};
  }
  return {type.pointer ? ParameterInfo::Kind::Pointer : ParameterInfo::Kind::Scalar, type.dtype,
          type.readonly, 0, 0};
}

std::shared_ptr<detail::KernelCore> make_core(const std::shared_ptr<const ir::Kernel>& recorded,
                                              const std::vector<std::optional<LayoutClass>>& pinned) {
  ir::verify(*recorded, ir::Blame::Author);
  std::vector<ParameterInfo> parameters;
  std::size_t view = 0;
  for (const auto& arg : recorded->body.args) {
    const bool is_pinnable = arg->type.is_view() && view < pinned.size();
    parameters.push_back(parameter_of(arg->type, is_pinnable ? pinned[view] : std::nullopt));
    view += arg->type.is_view();
  }
  return {new detail::KernelCore(recorded, parameters), [](detail::KernelCore* core) { core->release(); }};
}

} // namespace

IrKernel::IrKernel(std::shared_ptr<const ir::Kernel> recorded,
                   const std::vector<std::optional<LayoutClass>>& pinned)
    : recorded_(std::move(recorded)), core_(make_core(recorded_, pinned)) {}

Config IrKernel::config_of(const Config& config) const {
  const std::vector<const char*> dimensions = recorded_->dimensions();
  Config used;
  for (const Binding& b : config)
    if (is_option(b.name) || std::find(dimensions.begin(), dimensions.end(), b.name) != dimensions.end() ||
        (recorded_->config_specific && recorded_->recorded_with.get(b.name)))
      used.set(b);
  return used;
}

std::vector<std::uint64_t> IrKernel::block_of(std::span<const std::uint64_t> words) const {
  if (words.size() != static_cast<std::size_t>(core_->words))
    throw UserError("kernel \"" + recorded_->name + "\" takes " + std::to_string(core_->words) +
                    " words of arguments, and " + std::to_string(words.size()) + " were given");
  std::vector<std::uint64_t> block(detail::launch_header_words + words.size() + 1);
  std::copy(words.begin(), words.end(), block.begin() + detail::launch_header_words);
  return block;
}

void IrKernel::launch(Stream& stream, const Config& config, const Grid* grid,
                      std::span<const std::uint64_t> words) const {
  std::vector<std::uint64_t> block = block_of(words);
  try {
    detail::launch(*core_, stream, {}, config_of(config), grid, block.data() + detail::launch_header_words);
  } catch (const UserError& e) { // this call has no source location
    const std::string_view text = e.what(), nowhere = ":0: ";
    if (text.starts_with(nowhere)) throw UserError(std::string(text.substr(nowhere.size())));
    throw;
  }
}

std::shared_ptr<const CompiledKernel> IrKernel::compile(Device device, const Config& config,
                                                        std::span<const std::uint64_t> words) const {
  std::vector<std::uint64_t> block = block_of(words);
  const std::uint64_t layouts =
      core_->check_arguments(block.data() + detail::launch_header_words, SourceLocation());
  return core_->variant({config_of(config), layouts, device}).code;
}

std::unique_ptr<ir::Kernel> IrKernel::bound(const Config& config,
                                            std::span<const std::uint64_t> words) const {
  std::vector<std::uint64_t> block = block_of(words);
  const std::uint64_t layouts =
      core_->check_arguments(block.data() + detail::launch_header_words, SourceLocation());
  auto kernel = recorded_->clone();
  passes::bind(*kernel, {config_for(Device::cpu(), config_of(config)), core_->layouts_of(layouts)});
  return kernel;
}

} // namespace kiln
