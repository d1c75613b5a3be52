// Opens the library of the CUDA driver and looks up its functions.
#include <kiln/jit/runtime/cuda/driver.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/fork.h>
#include <kiln/jit/base/options.h>

#include <atomic>
#include <dlfcn.h>

namespace kiln::cuda {

namespace {

constexpr const char* default_library = "libcuda.so.1";
constexpr const char* instead = ", or use Device::cpu()";

enum class Need { Required, Optional };

using GetProcAddress = Result (*)(const char* name, void** function, int version, std::uint64_t flags,
                                  int* status);

// Looks up one version of a function: with cuGetProcAddress_v2, or by its symbol if the driver lacks that.
class Resolver {
public:
  explicit Resolver(void* library)
      : library_(library),
        get_proc_address_(reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"))) {}

  template <class F> bool find(F*& function, const char* name, int version, const char* suffix) const {
    void* found = nullptr;
    if (get_proc_address_) {
      int status = 0;
      if (get_proc_address_(name, &found, version, 0, &status) != Result::Success || status != 0)
        found = nullptr;
    } else {
      found = dlsym(library_, (std::string(name) + suffix).c_str());
    }
    function = reinterpret_cast<F*>(found);
    return found;
  }

private:
  void* library_;
  GetProcAddress get_proc_address_;
};

// Looks up all functions. Returns the name of the first required one that the driver lacks, or null.
const char* fill(Driver& driver, const Resolver& resolver) {
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...)                                                    \
  if (!resolver.find(driver.name, #name, version, suffix) && Need::need == Need::Required) return #name;
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
  return nullptr;
}

std::string advice_for(Result result) {
  switch (result) {
  case Result::NoDevice: return "look at `nvidia-smi -L` and CUDA_VISIBLE_DEVICES";
  case Result::SystemDriverMismatch:
    return "the driver's library and the kernel's module are of different versions; restart the machine or "
           "reload the module";
  case Result::SystemNotReady: return "the system is not ready; start nvidia-fabricmanager, then try again";
  case Result::CompatNotSupportedOnDevice:
    return "the forward compatibility library does not support this GPU; remove it from LD_LIBRARY_PATH";
  case Result::StubLibrary:
    return "this is the toolkit's stub for linking; remove its folder from LD_LIBRARY_PATH";
  default: return "look at `nvidia-smi` and the system's log";
  }
}

} // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != Result::Success || !name)
    return "error " + std::to_string(static_cast<int>(result));
  cuGetErrorString(result, &text);
  return text ? std::string(name) + " (" + text + ")" : name;
}

Probe probe(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return {nullptr, "no NVIDIA driver: cannot open " + library + " (" + (why ? why : "unknown error") +
                         "); install a driver for CUDA " + version_text(minimum_version) +
                         " or newer, or name its library in KILN_CUDA_LIBRARY" + instead};
  }
  // The library is not closed, even after an error, because the driver starts threads that cannot be
  // unloaded.
  auto driver = std::make_unique<Driver>();
  driver->library = library;
  auto refuse = [&](const std::string& what) { return Probe{nullptr, library + " " + what + instead}; };

  Resolver resolver(handle);
  if (!resolver.find(driver->cuDriverGetVersion, "cuDriverGetVersion", 2020, "") ||
      driver->cuDriverGetVersion(&driver->version) != Result::Success)
    return refuse("is not an NVIDIA driver that reports its version; reinstall the driver");
  if (driver->version < minimum_version)
    return refuse("is an NVIDIA driver for CUDA " + version_text(driver->version) + ", and Kiln needs CUDA " +
                  version_text(minimum_version) + "; update the driver");
  if (const char* missing = fill(*driver, resolver))
    return refuse("is an NVIDIA driver for CUDA " + version_text(driver->version) + " that lacks " + missing +
                  "; reinstall the driver");
  if (Result result = driver->cuInit(0); result != Result::Success)
    return refuse("cannot be initialised: " + driver->describe(result) + "; " + advice_for(result));
  if (Result result = driver->cuDeviceGetCount(&driver->device_count); result != Result::Success)
    return refuse("cannot count its devices: " + driver->describe(result) + "; " + advice_for(result));
  if (driver->device_count < 1) return refuse("finds no GPU; " + advice_for(Result::NoDevice));
  return {std::move(driver), {}};
}

namespace {

std::atomic<const Driver*> opened_driver{nullptr};

struct Found final : ForkAware { // registered as fork-aware, so that forks are counted
  Probe probe;
  Availability availability;
  std::uint32_t generation = fork_generation(); // when the driver was opened

  Found() {
    const std::string& given = options().cuda_library;
    probe = cuda::probe(given.empty() ? default_library : given);
    availability = {probe.driver != nullptr, probe.reason};
    opened_driver.store(probe.driver.get(), std::memory_order_release);
  }
  void reset_in_child() noexcept override {}
  static const Found& get() {
    static const auto* found = new Found; // never destroyed, because Buffers may be destroyed later
    return *found;
  }
};

} // namespace

const Availability& available() { return Found::get().availability; }

const Driver& driver() {
  const Found& found = Found::get();
  if (!found.probe.driver) throw UserError(found.probe.reason);
  if (found.generation != fork_generation())
    throw UserError("CUDA was opened before this process was forked, and does not work in the child; start "
                    "the child by exec, or fork before the first use of a CUDA device");
  return *found.probe.driver;
}

bool opened() { return opened_driver.load(std::memory_order_acquire) != nullptr; }

} // namespace kiln::cuda
