// Loads modules and queries the attributes of their functions.
#include <kiln/jit/runtime/cuda/module.h>

#include <kiln/dsl/symbol.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/jit_log.h>
#include <kiln/jit/runtime/cuda/ptx_version.h>

namespace kiln::cuda {

void check_ptx_version(const DeviceState& device, std::string_view ptx, std::string_view name) {
  int has = ptx_version_of(ptx), reads = newest_ptx_of_driver(device.driver().version);
  if (reads == 0 || has <= reads) return; // for a driver newer than the table, the driver itself decides
  int needed = oldest_driver_for_ptx(has);
  throw UserError("kernel \"" + std::string(name) + "\" on " + device.name() + ": its PTX is of version " +
                  ptx_version_text(has) + ", and the NVIDIA driver (CUDA " +
                  version_text(device.driver().version) + ") reads PTX up to " + ptx_version_text(reads) +
                  "; update the driver" +
                  (needed ? " to one for CUDA " + version_text(needed) + " or newer" : ""));
}

std::shared_ptr<const Module> Module::load(DeviceState& device, std::string_view image, std::string_view name,
                                           OnRefusal on_refusal) {
  if (is_ptx(image)) check_ptx_version(device, image, name);
  Current current(device);
  std::shared_ptr<Module> module(new Module(device, std::string(name)));
  std::string terminated(image); // the driver reads PTX up to a zero byte
  JitLog log;
  Result result = device.driver().cuModuleLoadDataEx(&module->handle_, terminated.c_str(), JitLog::count,
                                                     log.names(), log.values());
  if (result != Result::Success) {
    module->handle_ = nullptr;
    refuse_image(device, result, "cuModuleLoadDataEx", image, name, log, on_refusal);
  }
  if (log_enabled(LogLevel::Debug) && !log.info().empty())
    log_debug("the driver about kernel " + module->name_ + ": " + std::string(log.info()));
  return module;
}

Module::~Module() {
  if (!handle_) return;
  clean_up(device_, [&] {
    device_.driver().cuCtxSynchronize(); // other calls will report its error
    device_.driver().cuModuleUnload(handle_);
  });
}

Function Module::function(const std::string& name, const std::string& called) const {
  Current current(device_);
  const Driver& driver = device_.driver();
  auto state = std::make_shared<Function::State>();
  state->name = intern(called.empty() ? name : called);
  Result result = driver.cuModuleGetFunction(&state->handle, handle_, name.c_str());
  if (result == Result::NotFound)
    throw TargetError(device_.name() + ": the module of kernel \"" + name_ + "\" has no function " + name);
  device_.check(result, "cuModuleGetFunction");
  auto get = [&](FunctionAttribute attribute) {
    int value = 0;
    device_.check(driver.cuFuncGetAttribute(&value, attribute, state->handle), "cuFuncGetAttribute");
    return value;
  };
  state->info.registers = get(FunctionAttribute::NumRegs);
  state->info.local_bytes = get(FunctionAttribute::LocalSizeBytes);
  state->info.static_shared_bytes = get(FunctionAttribute::SharedSizeBytes);
  state->info.max_threads_per_block = get(FunctionAttribute::MaxThreadsPerBlock);
  // This much needs no opt-in.
  state->allowed_shared = device_.properties().shared_bytes - state->info.static_shared_bytes;
  return Function(shared_from_this(), std::move(state));
}

DeviceState& Function::device() const { return module_->device(); }

int Function::blocks_per_multiprocessor(int threads, std::int64_t shared_bytes) const {
  DeviceState& d = device();
  Current current(d);
  int blocks = 0;
  d.check(d.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, handle(), threads,
                                                                 static_cast<std::size_t>(shared_bytes)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks;
}

void Function::allow_shared(std::int64_t bytes) const {
  State& s = *state_;
  if (bytes <= s.allowed_shared.load(std::memory_order_acquire)) return;
  std::lock_guard lock(s.mutex);
  if (bytes <= s.allowed_shared.load(std::memory_order_relaxed)) return;
  DeviceState& d = device();
  Current current(d);
  d.check(d.driver().cuFuncSetAttribute(s.handle, FunctionAttribute::MaxDynamicSharedSizeBytes,
                                        static_cast<int>(bytes)),
          "cuFuncSetAttribute of the shared memory of kernel " + std::string(s.name));
  s.allowed_shared.store(bytes, std::memory_order_release);
}

void Function::allow_large_clusters() const {
  State& s = *state_;
  if (s.large_clusters.load(std::memory_order_acquire)) return;
  std::lock_guard lock(s.mutex);
  DeviceState& d = device();
  Current current(d);
  d.check(d.driver().cuFuncSetAttribute(s.handle, FunctionAttribute::NonPortableClusterSizeAllowed, 1),
          "cuFuncSetAttribute of the cluster size of kernel " + std::string(s.name));
  s.large_clusters.store(true, std::memory_order_release);
}

std::string assemble(DeviceState& device, std::string_view ptx, std::string_view name) {
  check_ptx_version(device, ptx, name);
  Current current(device);
  const Driver& driver = device.driver();
  JitLog log;
  LinkHandle link = nullptr;
  device.check(driver.cuLinkCreate(JitLog::count, log.names(), log.values(), &link), "cuLinkCreate");
  std::string text(ptx), label(name), cubin;
  void* made = nullptr;
  std::size_t bytes = 0;
  Result result = driver.cuLinkAddData(link, jit_input_ptx, text.data(), text.size() + 1, label.c_str(), 0,
                                       nullptr, nullptr);
  if (result == Result::Success) result = driver.cuLinkComplete(link, &made, &bytes);
  if (result == Result::Success)
    cubin.assign(static_cast<const char*>(made), bytes); // the memory belongs to the link
  driver.cuLinkDestroy(link);
  if (result != Result::Success)
    refuse_image(device, result, "cuLinkComplete", ptx, name, log, OnRefusal::SaveRepro);
  return cubin;
}

} // namespace kiln::cuda
