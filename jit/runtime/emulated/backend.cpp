// Compiles kernels for emulated devices, to the PTX that a driver would get, with lines of the user's source.
#include <kiln/jit/runtime/kernel/backend.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/printer.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/emulated/device_state.h>
#include <kiln/jit/runtime/emulated/kernel_code.h>

namespace kiln {
namespace {

class EmulatedBackend final : public Backend {
public:
  EmulatedBackend(const Compilation& c, Device device)
      : c_(c), device_(emulated::DeviceState::get(device.index())),
        arch_(cuda::architecture_named(device_.arch())) {
    gpu::ptx_options(c.lowered->name, c.config); // UserError for a config that no thread block can have
    key_ = cache::KeyBuilder::versioned()
               .add("emulated")
               .add(ir::print(*c.lowered, {.locations = true})) // the code contains locations
               .add(c.config.to_string())
               .add(c.debug)
               .add(arch_.code)
               .key();
  }

  std::vector<cache::Key> keys() override { return {key_}; }

  void load(std::span<const char> payload, CompiledKernel& into) override {
    install(cuda::from_payload(payload, c_.lowered->name), into);
  }

  StoredCode compile(CompiledKernel& into) override {
    gpu::Ptx ptx = cuda::compile_ptx(c_, arch_, true);
    cuda::keep_ptx(KeptFiles(c_, key_), c_, ptx);
    cuda::Cubin code{ptx.shape, std::move(ptx.text)};
    install(code, into);
    return {key_, to_payload(code), arch_.code};
  }

private:
  void install(const cuda::Cubin& code, CompiledKernel& into) const {
    const std::string& name = c_.lowered->name;
    cuda::check_shared(c_, code.shape.shared_bytes, device_.name(), device_.properties().shared_bytes);
    into.emulated = std::make_shared<const emulated::KernelCode>(emulated::KernelCode{
        parse(code.image), name, gpu::entry_name(name), code.shape, ir::ArgumentLayout::of(*c_.lowered).words,
        cuda::views_of(*c_.lowered), device_.index()});
  }

  // TargetError if the payload is not valid PTX; the kernel is then compiled again.
  std::shared_ptr<const emulator::Module> parse(const std::string& text) const {
    try {
      return emulator::Module::parse(text, c_.lowered->name + ".ptx");
    } catch (const UserError& e) {
      throw TargetError("kernel " + c_.lowered->name + ": its PTX cannot be emulated: " + e.what());
    }
  }

  const Compilation& c_;
  emulated::DeviceState& device_;
  cuda::Architecture arch_;
  cache::Key key_;
};

} // namespace

std::unique_ptr<Backend> make_emulated_backend(const Compilation& c, Device device) {
  return std::make_unique<EmulatedBackend>(c, device);
}

} // namespace kiln
