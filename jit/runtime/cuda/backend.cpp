// Provides cubins of kernels for CUDA devices, from the cache, ptxas or the driver, and loads them as
// modules.
#include <kiln/jit/runtime/kernel/backend.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/gpu/block_bound.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>

namespace kiln {
namespace {

class CudaBackend final : public Backend {
public:
  CudaBackend(const Compilation& c, Device device)
      : c_(c), device_(cuda::DeviceState::get(device.index())),
        arch_(cuda::architecture_of(device_.properties().sm)),
        driver_key_(cuda::driver_key(c, arch_, device_.driver().version, device_.properties().sm)) {
    device_.check_usable();
    gpu::ptx_options(c.lowered->name, c.config); // UserError for a config that no thread block can have
  }

  // If there is a ptxas, only its own cubins are acceptable, because a newer version may generate better
  // code. Cubins of the driver are for PTX that ptxas rejects.
  std::vector<cache::Key> keys() override {
    std::vector<cache::Key> keys;
    if (const std::string& own = gpu::ptxas_version(); !own.empty())
      keys.push_back(cuda::ptxas_key(c_, arch_, own));
    else
      for (const std::string& version : cuda::recorded_ptxas_versions())
        keys.push_back(cuda::ptxas_key(c_, arch_, version));
    keys.push_back(driver_key_);
    return keys;
  }

  void load(std::span<const char> payload, CompiledKernel& into) override {
    const cuda::Cubin cubin = cuda::from_payload(payload, c_.lowered->name);
    install(cubin, cuda::OnRefusal::Report, into);
  }

  StoredCode compile(CompiledKernel& into) override {
    gpu::Ptx ptx = cuda::compile_ptx(c_, arch_);
    check_shared(ptx.shape.shared_bytes);
    KeptFiles kept(c_, keys().front());
    cuda::keep_ptx(kept, c_, ptx);
    cuda::Cubin cubin{ptx.shape, {}};
    if (auto image = by_ptxas(ptx.text)) {
      kept.write(c_.keep.ptx, ".ptx", ptx.text); // the PTX that ptxas accepted
      cubin.image = *image;
      kept.write(c_.keep.cubin, ".cubin", cubin.image);
      if (loads(cubin, into)) {
        cuda::record_ptxas_version(gpu::ptxas_version());
        return {cuda::ptxas_key(c_, arch_, gpu::ptxas_version()), to_payload(cubin), arch_.binary};
      }
    }
    by_driver(cubin, ptx.text, into);
    kept.write(c_.keep.ptx, ".ptx", ptx.text);
    kept.write(c_.keep.cubin, ".cubin", cubin.image);
    return {driver_key_, to_payload(cubin), "sm_" + std::to_string(device_.properties().sm)};
  }

private:
  // Nothing if there is no ptxas, or if it cannot be used: it is too old for the architecture, or broken.
  std::optional<std::string> by_ptxas(std::string& ptx) const {
    std::string refusal;
    try {
      auto image = cuda::run_ptxas(ptx, arch_, c_.lowered->name, refusal);
      if (image || refusal.empty()) return image;
    } catch (const TargetError& e) {
      refusal = e.what();
    }
    log_warning_once("ptxas " + gpu::ptxas_version() + " does not assemble kernels for " + arch_.binary +
                     ", so the driver assembles them: " + refusal);
    return std::nullopt;
  }

  // Assembles with the driver, in either way that gpu::assemble_either_way tries. The driver's log does not
  // mention spills, but local memory.
  void by_driver(cuda::Cubin& cubin, std::string& ptx, CompiledKernel& into) const {
    const std::string& name = c_.lowered->name;
    cubin.image = cuda::assemble(device_, ptx, name);
    install(cubin, cuda::OnRefusal::SaveRepro, into);
    auto local_bytes = [](const CompiledKernel& kernel) { return kernel.cuda->function.info().local_bytes; };
    if (local_bytes(into) == 0) return;
    std::string other_ptx = gpu::with_other_block_bound(ptx);
    if (other_ptx.empty()) return;
    cuda::Cubin other{cubin.shape, cuda::assemble(device_, other_ptx, name)};
    CompiledKernel kernel;
    install(other, cuda::OnRefusal::SaveRepro, kernel);
    if (local_bytes(kernel) >= local_bytes(into)) return;
    into.cuda = std::move(kernel.cuda);
    cubin = std::move(other);
    ptx = std::move(other_ptx);
  }

  // False if the driver rejects the cubin, as a driver that is older than ptxas may.
  bool loads(const cuda::Cubin& cubin, CompiledKernel& into) const {
    try {
      install(cubin, cuda::OnRefusal::Report, into);
      return true;
    } catch (const TargetError& e) {
      if (device_.lost()) throw;
      log_warning_once("the driver does not load what ptxas " + gpu::ptxas_version() +
                       " makes, so it assembles kernels itself: " + e.what());
      return false;
    }
  }

  void install(const cuda::Cubin& cubin, cuda::OnRefusal on_refusal, CompiledKernel& into) const {
    check_shared(cubin.shape.shared_bytes);
    const std::string& name = c_.lowered->name;
    auto module = cuda::Module::load(device_, cubin.image, name, on_refusal);
    into.cuda = std::make_shared<const cuda::KernelCode>(cuda::KernelCode{
        module->function(gpu::entry_name(name), name), cubin.shape.warps, cubin.shape.grid_rank,
        cubin.shape.shared_bytes, ir::ArgumentLayout::of(*c_.lowered).words, cuda::views_of(*c_.lowered)});
  }

  void check_shared(std::int64_t bytes) const {
    cuda::check_shared(c_, bytes, device_.name(), device_.properties().shared_bytes_optin);
  }

  const Compilation& c_;
  cuda::DeviceState& device_;
  cuda::Architecture arch_;
  cache::Key driver_key_;
};

} // namespace

std::unique_ptr<Backend> make_cuda_backend(const Compilation& c, Device device) {
  return std::make_unique<CudaBackend>(c, device);
}

} // namespace kiln
