// Loads code onto a CUDA device: modules from PTX or a cubin, and their functions. Internal.
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

// The properties of a function that the assembler reports. Sizes are in bytes.
struct FunctionInfo {
  int registers = 0;                    // per thread
  std::int64_t local_bytes = 0;         // per thread: register spills and stack
  std::int64_t static_shared_bytes = 0; // per block
  int max_threads_per_block = 0;        // largest block, given the registers that it uses
};

class Module;

// A handle: copies refer to the same function and keep its module alive. Thread-safe.
class Function {
public:
  const char* name() const { return state_->name; } // its name in messages, interned
  FunctionHandle handle() const { return state_->handle; }
  const FunctionInfo& info() const { return state_->info; }
  DeviceState& device() const;
  // The number of blocks that run at once on a multiprocessor, as the driver computes it.
  int blocks_per_multiprocessor(int threads, std::int64_t shared_bytes) const;

  // Allows launches to use this much dynamic shared memory per block. It calls the driver only if more is
  // needed than before. The caller has checked the device's limit.
  void allow_shared(std::int64_t bytes) const;
  // Allows clusters of more than 8 blocks, which is what every device supports.
  void allow_large_clusters() const;

private:
  friend class Module;
  struct State {
    const char* name = nullptr;
    FunctionHandle handle = nullptr;
    FunctionInfo info;
    std::atomic<std::int64_t> allowed_shared{0};
    std::atomic<bool> large_clusters{false};
    std::mutex mutex; // for allow_shared, which only raises the attribute
  };
  Function(std::shared_ptr<const Module> module, std::shared_ptr<State> state)
      : module_(std::move(module)), state_(std::move(state)) {}

  std::shared_ptr<const Module> module_;
  std::shared_ptr<State> state_;
};

// The action for an image that the driver rejects, besides throwing the error.
enum class OnRefusal {
  SaveRepro, // save it in a folder that the error names
  Report,    // nothing: the caller has another way
};

// A module may be destroyed while its functions run: the destructor waits for the device. Graphs must not
// outlive it. Thread-safe.
class Module : public std::enable_shared_from_this<Module> {
public:
  // `image` is PTX text or a cubin, and `name` is the kernel's name in messages. TargetError with the
  // driver's log, and a saved repro folder, if the driver rejects the image; UserError if the driver is too
  // old for the PTX.
  static std::shared_ptr<const Module> load(DeviceState& device, std::string_view image,
                                            std::string_view name,
                                            OnRefusal on_refusal = OnRefusal::SaveRepro);
  ~Module();

  DeviceState& device() const { return device_; }
  // TargetError if there is no function of this name. Messages use `called`, or else the name.
  Function function(const std::string& name, const std::string& called = {}) const;

private:
  Module(DeviceState& device, std::string name) : device_(device), name_(std::move(name)) {}
  DeviceState& device_;
  std::string name_;
  ModuleHandle handle_ = nullptr;
};

// The cubin that the driver's assembler makes from PTX, for the cache. Throws what Module::load throws.
std::string assemble(DeviceState& device, std::string_view ptx, std::string_view name);

// UserError if this version of the PTX language is too new for the driver.
void check_ptx_version(const DeviceState& device, std::string_view ptx, std::string_view name);

} // namespace kiln::cuda
