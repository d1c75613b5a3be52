// Code on a CUDA device: modules from PTX or a cubin, and their functions. Not for users.
//
//   auto module = cuda::Module::load(DeviceState::get(0), ptx, "add");
//   cuda::Function add = module->function("add");
//   cuda::launch(stream, add, {.x = blocks}, {.x = 128}, shared_bytes, arguments, {}, site);
#pragma once

#include <kiln/jit/runtime/cuda/device_state.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace kiln::cuda {

// What the assembler made of a function. Sizes in bytes.
struct FunctionInfo {
  int registers = 0;                    // per thread
  std::int64_t local_bytes = 0;         // per thread: spills and stack
  std::int64_t static_shared_bytes = 0; // per block
  int max_threads_per_block = 0;        // for its registers
};

class Module;

// A handle: copies are the same function. It keeps its module. Thread-safe.
class Function {
public:
  const char* name() const { return state_->name; } // as messages call it, interned
  FunctionHandle handle() const { return state_->handle; }
  const FunctionInfo& info() const { return state_->info; }
  DeviceState& device() const;
  // Blocks that run on one multiprocessor at once, as the driver counts them.
  int blocks_per_multiprocessor(int threads, std::int64_t shared_bytes) const;

  // Lets launches have this much dynamic shared memory per block: a driver call the first time, and whenever
  // more is wanted. The device's limit has been checked.
  void allow_shared(std::int64_t bytes) const;
  // Lets clusters have more than the 8 blocks that every device takes.
  void allow_large_clusters() const;

private:
  friend class Module;
  struct State {
    const char* name = nullptr;
    FunctionHandle handle = nullptr;
    FunctionInfo info;
    std::atomic<std::int64_t> allowed_shared{0};
    std::atomic<bool> large_clusters{false};
    std::mutex mutex; // of allow_shared: attributes only grow
  };
  Function(std::shared_ptr<const Module> module, std::shared_ptr<State> state)
      : module_(std::move(module)), state_(std::move(state)) {}

  std::shared_ptr<const Module> module_;
  std::shared_ptr<State> state_;
};

// What becomes of an image that the driver refuses, beside the error.
enum class OnRefusal {
  SaveRepro, // a folder with it, which the error names
  Report,    // nothing: there is another way
};

// It may die while its functions run: it waits for the device. Graphs must not outlive it. Thread-safe.
class Module : public std::enable_shared_from_this<Module> {
public:
  // `image` is PTX text or a cubin. `name` is the kernel's, for messages. TargetError with the driver's log,
  // and a saved repro folder, if the driver refuses it; UserError if the driver is too old for the PTX.
  static std::shared_ptr<const Module> load(DeviceState& device, std::string_view image,
                                            std::string_view name,
                                            OnRefusal on_refusal = OnRefusal::SaveRepro);
  ~Module();

  DeviceState& device() const { return device_; }
  // TargetError if there is none of this name. Messages call it `called`, or by its name.
  Function function(const std::string& name, const std::string& called = {}) const;

private:
  Module(DeviceState& device, std::string name) : device_(device), name_(std::move(name)) {}
  DeviceState& device_;
  std::string name_;
  ModuleHandle handle_ = nullptr;
};

// The cubin that the driver's assembler makes of PTX, to be cached. Fails as Module::load does.
std::string assemble(DeviceState& device, std::string_view ptx, std::string_view name);

// UserError if the driver cannot read the PTX because of its version.
void check_ptx_version(const DeviceState& device, std::string_view ptx, std::string_view name);

} // namespace kiln::cuda
