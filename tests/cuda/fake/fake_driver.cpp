// A CUDA driver without a GPU: the entry points that Kiln uses, over host memory and threads.
//
// Built as libfakecuda.so, and with FAKE_CUDA_OLD as a driver without cuGetProcAddress_v2, cuLaunchKernelEx
// and memory pools. Kernels do nothing but appear in the log of launches, except "add_one(pointer, count)",
// which adds 1.0f to each of count floats.
#include "fake_state.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <utility>

using namespace fake;
using namespace kiln::cuda;

namespace {

constexpr int cluster_limit = 8, large_cluster_limit = 16;

#define ENTER(NEEDS_CONTEXT)                                                                                 \
  if (Result entered = enter(__func__, NEEDS_CONTEXT); entered != Result::Success) return entered

State& state() { return State::get(); }
fake::Stream& stream_of(StreamHandle handle) {
  if (handle) return *reinterpret_cast<fake::Stream*>(handle);
  std::lock_guard lock(state().mutex);
  auto& slot = state().default_streams[current()->device];
  if (!slot) slot = std::make_unique<fake::Stream>(*current());
  return *slot;
}
// Shared with the commands that record and wait for it, so that it may be destroyed before they run.
using EventOwner = std::shared_ptr<fake::Event>;
const EventOwner& event_of(EventHandle handle) { return *reinterpret_cast<EventOwner*>(handle); }
Result lost(const Context& context) { return static_cast<Result>(context.lost.load()); }

void* memory(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

// Queues a command that a lost device does not run.
Result push(StreamHandle handle, std::function<void()> command) {
  fake::Stream& s = stream_of(handle);
  if (&s.context != current()) return Result::InvalidHandle;
  Context* context = &s.context;
  s.push([context, command = std::move(command)] {
    if (!context->lost) command();
  });
  return Result::Success;
}

struct Run { // a launch on its way
  FakeLaunch log;
  const fake::Function* function;
  std::vector<std::uint64_t> arguments;
};

int execute(const Run& run) {
  decltype(state().execute) somebody;
  FakeExecution e{};
  {
    std::lock_guard lock(state().mutex);
    somebody = state().execute;
    e.context = state().execute_context;
  }
  if (!somebody) return 0;
  const fake::Function& f = *run.function;
  e.image = f.image->data(), e.image_bytes = f.image->size(), e.kernel = f.name.c_str();
  std::copy_n(run.log.grid, 3, e.grid);
  std::copy_n(run.log.block, 3, e.block);
  e.argument_count = run.log.argument_count;
  e.arguments = run.arguments.data(), e.argument_bytes = f.parameters.data();
  return somebody(&e);
}

void run_kernel(Context& context, const Run& run) {
  if (long long ms = state().setting("kernel_ms")) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  int result;
  {
    std::lock_guard lock(state().mutex);
    state().launches.push_back(run.log);
    result = static_cast<int>(std::exchange(state().settings.at("kernel_result"), 0));
  }
  if (run.function->name == "add_one") {
    auto* x = reinterpret_cast<float*>(run.arguments[0]);
    for (std::uint64_t i = 0; i < run.arguments[1] && !result; ++i)
      x[i] += 1;
  } else if (!result) {
    result = execute(run);
  }
  if (result) context.lost = result;
}

Result launch(const char* entry_point, FunctionHandle function, const unsigned* grid, const unsigned* block,
              unsigned shared_bytes, StreamHandle stream, void** parameters, const unsigned* cluster,
              bool cooperative) {
  if (state().swallow) return Result::Success;
  auto& f = *reinterpret_cast<fake::Function*>(function);
  unsigned threads = block[0] * block[1] * block[2];
  if (threads == 0 || threads > 1024 || static_cast<int>(threads) > f.max_threads)
    return Result::InvalidValue;
  if (f.required_threads && static_cast<int>(threads) != f.required_threads) return Result::InvalidValue;
  if (grid[0] == 0 || grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
    return Result::InvalidValue;
  if (static_cast<int>(shared_bytes) > f.dynamic_shared - f.static_shared) return Result::InvalidValue;
  FakeLaunch l{};
  std::snprintf(l.kernel, sizeof l.kernel, "%s", f.name.c_str());
  std::snprintf(l.entry_point, sizeof l.entry_point, "%s", entry_point);
  l.device = current()->device;
  unsigned blocks = 1;
  for (int i = 0; i < 3; ++i) {
    l.grid[i] = grid[i], l.block[i] = block[i], l.cluster[i] = cluster ? cluster[i] : 0;
    if (cluster) blocks *= cluster[i];
  }
  if (static_cast<int>(blocks) > (f.large_clusters ? large_cluster_limit : cluster_limit))
    return Result::InvalidValue;
  l.shared_bytes = shared_bytes;
  l.cooperative = cooperative;
  l.argument_count = static_cast<int>(f.parameters.size());
  Run run{l, &f, std::vector<std::uint64_t>(f.parameters.size())};
  for (std::size_t i = 0; i < f.parameters.size(); ++i)
    std::memcpy(&run.arguments[i], parameters[i], static_cast<std::size_t>(f.parameters[i]));
  std::copy_n(run.arguments.begin(), std::min(run.arguments.size(), std::size(l.arguments)),
              run.log.arguments);
  run.log.stream = stream;
  Context* context = current();
  return push(stream, [context, run = std::move(run)] { run_kernel(*context, run); });
}

} // namespace

// --- Start -------------------------------------------------------------------------------------------------

FAKE_ENTRY cuInit(unsigned) {
  ENTER(false);
  std::lock_guard lock(state().mutex);
  state().initialised = true;
  return state().settings.at("devices") > 0 ? Result::Success : Result::NoDevice;
}

FAKE_ENTRY cuDriverGetVersion(int* version) {
  ENTER(false);
  *version = static_cast<int>(state().setting("driver_version"));
  return Result::Success;
}

namespace {
struct Name {
  Result result;
  const char *name, *text;
};
constexpr Name names[] = {
    {Result::InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::StubLibrary, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {Result::NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {Result::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {Result::InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {Result::UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {Result::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {Result::Assert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {Result::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Result::SystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {Result::SystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {Result::CompatNotSupportedOnDevice, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {Result::Unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
Result find_name(Result result, const char** text, const char* Name::* member) {
  *text = nullptr;
  for (const Name& n : names)
    if (n.result == result) *text = n.*member;
  return *text ? Result::Success : Result::InvalidValue;
}
} // namespace

FAKE_ENTRY cuGetErrorName(Result result, const char** text) { return find_name(result, text, &Name::name); }
FAKE_ENTRY cuGetErrorString(Result result, const char** text) { return find_name(result, text, &Name::text); }

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t, int* status) {
  struct Symbol {
    const char *name, *suffix;
    int version;
  };
  static const Symbol symbols[] = {
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...) {#name, suffix, version},
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
  };
  *function = nullptr;
  *status = 1; // not found
  {
    std::lock_guard lock(state().mutex);
    if (state().hidden.count(name)) return Result::NotFound;
  }
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&cuInit), &self);
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (const Symbol& s : symbols)
    if (std::strcmp(s.name, name) == 0 && version >= s.version)
      *function = dlsym(library, (std::string(name) + s.suffix).c_str());
  dlclose(library);
  if (!*function) return Result::NotFound;
  *status = 0;
  return Result::Success;
}
#endif

// --- Devices and contexts ----------------------------------------------------------------------------------

FAKE_ENTRY cuDeviceGetCount(int* count) {
  ENTER(false);
  *count = static_cast<int>(state().setting("devices"));
  return Result::Success;
}

FAKE_ENTRY cuDeviceGet(DeviceHandle* device, int index) {
  ENTER(false);
  if (index < 0 || index >= state().setting("devices")) return Result::InvalidDevice;
  *device = index;
  return Result::Success;
}

FAKE_ENTRY cuDeviceGetName(char* name, int length, DeviceHandle device) {
  ENTER(false);
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %d", device);
  return Result::Success;
}

FAKE_ENTRY cuDeviceTotalMem_v2(std::size_t* bytes, DeviceHandle) {
  ENTER(false);
  *bytes = static_cast<std::size_t>(state().setting("memory_bytes"));
  return Result::Success;
}

FAKE_ENTRY cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle) {
  ENTER(false);
  using A = DeviceAttribute;
  auto sm = static_cast<int>(state().setting("sm"));
  switch (attribute) {
  case A::MaxThreadsPerBlock: *value = 1024; break;
  case A::MaxBlockDimX:
  case A::MaxBlockDimY: *value = 1024; break;
  case A::MaxBlockDimZ: *value = 64; break;
  case A::MaxGridDimX: *value = 2147483647; break;
  case A::MaxGridDimY:
  case A::MaxGridDimZ: *value = 65535; break;
  case A::MaxSharedMemoryPerBlock: *value = 48 << 10; break;
  case A::WarpSize: *value = 32; break;
  case A::MultiprocessorCount: *value = 132; break;
  case A::L2CacheSize: *value = 50 << 20; break;
  case A::ComputeCapabilityMajor: *value = sm / 10; break;
  case A::ComputeCapabilityMinor: *value = sm % 10; break;
  case A::CooperativeLaunch: *value = static_cast<int>(state().setting("cooperative")); break;
  case A::MaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
#ifdef FAKE_CUDA_OLD
  case A::MemoryPoolsSupported: *value = 0; break;
#else
  case A::MemoryPoolsSupported: *value = static_cast<int>(state().setting("pools")); break;
#endif
  case A::PageableMemoryAccess: *value = static_cast<int>(state().setting("pageable")); break;
  case A::ClusterLaunch: *value = sm >= 90; break;
  default: return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  ENTER(false);
  *context = reinterpret_cast<ContextHandle>(&state().contexts[device]);
  state().count("contexts", 1, *context);
  return Result::Success;
}

FAKE_ENTRY cuCtxGetCurrent(ContextHandle* context) {
  ENTER(false);
  *context = reinterpret_cast<ContextHandle>(current());
  return Result::Success;
}

FAKE_ENTRY cuCtxPushCurrent_v2(ContextHandle context) {
  ENTER(false);
  ContextStack& stack = context_stack();
  if (stack.count == std::ssize(stack.items)) return Result::InvalidValue;
  stack.items[stack.count++] = reinterpret_cast<Context*>(context);
  return Result::Success;
}

FAKE_ENTRY cuCtxPopCurrent_v2(ContextHandle* context) {
  ENTER(false);
  if (!current()) return Result::InvalidContext;
  *context = reinterpret_cast<ContextHandle>(current());
  --context_stack().count;
  return Result::Success;
}

FAKE_ENTRY cuCtxSynchronize() {
  ENTER(true);
  std::lock_guard lock(state().streams_mutex);
  for (fake::Stream* s : state().streams) {
    if (&s->context != current()) continue;
    if (s->capturing) return Result::StreamCaptureUnsupported;
    s->wait();
  }
  return lost(*current());
}

// --- Code --------------------------------------------------------------------------------------------------

namespace {
// Finds the buffer for errors among the options.
void find_error_log(unsigned count, JitOption* names, void** values, char*& errors, std::size_t& bytes) {
  for (unsigned i = 0; i < count; ++i) {
    if (names[i] == JitOption::ErrorLogBuffer) errors = static_cast<char*>(values[i]);
    if (names[i] == JitOption::ErrorLogBufferSizeBytes) bytes = reinterpret_cast<std::size_t>(values[i]);
  }
}
} // namespace

FAKE_ENTRY cuModuleLoadDataEx(ModuleHandle* handle, const void* image, unsigned count, JitOption* names,
                              void** values) {
  ENTER(true);
  char* errors = nullptr;
  std::size_t bytes = 0;
  find_error_log(count, names, values, errors, bytes);
  auto module = std::make_unique<fake::Module>();
  module->context = current();
  Result result = parse_image(read_image(image), *module, errors, bytes);
  if (result != Result::Success) return result;
  *handle = reinterpret_cast<ModuleHandle>(module.release());
  state().count("modules", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuModuleUnload(ModuleHandle handle) {
  ENTER(true);
  delete reinterpret_cast<fake::Module*>(handle);
  state().count("modules", -1, handle);
  return Result::Success;
}

FAKE_ENTRY cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  ENTER(true);
  for (const auto& f : reinterpret_cast<fake::Module*>(module)->functions)
    if (f->name == name) {
      *function = reinterpret_cast<FunctionHandle>(f.get());
      return Result::Success;
    }
  return Result::NotFound;
}

FAKE_ENTRY cuFuncGetAttribute(int* value, FunctionAttribute attribute, FunctionHandle function) {
  ENTER(true);
  auto& f = *reinterpret_cast<fake::Function*>(function);
  switch (attribute) {
  case FunctionAttribute::MaxThreadsPerBlock: *value = f.max_threads; break;
  case FunctionAttribute::SharedSizeBytes: *value = f.static_shared; break;
  case FunctionAttribute::LocalSizeBytes: *value = f.local; break;
  case FunctionAttribute::NumRegs: *value = f.registers; break;
  default: return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuFuncSetAttribute(FunctionHandle function, FunctionAttribute attribute, int value) {
  ENTER(true);
  auto& f = *reinterpret_cast<fake::Function*>(function);
  if (attribute == FunctionAttribute::MaxDynamicSharedSizeBytes) {
    if (value + f.static_shared > 227 << 10) return Result::InvalidValue;
    f.dynamic_shared = value + f.static_shared;
  } else if (attribute == FunctionAttribute::NonPortableClusterSizeAllowed) {
    f.large_clusters = value != 0;
  } else {
    return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle, int threads,
                                                       std::size_t shared_bytes) {
  ENTER(true);
  *blocks = std::min(2048 / threads, shared_bytes ? static_cast<int>((228u << 10) / shared_bytes) : 32);
  return Result::Success;
}

FAKE_ENTRY cuLinkCreate_v2(unsigned count, JitOption* names, void** values, LinkHandle* handle) {
  ENTER(true);
  auto* link = new Link;
  find_error_log(count, names, values, link->errors, link->error_bytes);
  *handle = reinterpret_cast<LinkHandle>(link);
  state().count("links", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuLinkAddData_v2(LinkHandle handle, int, void* data, std::size_t, const char*, unsigned,
                            JitOption*, void**) {
  ENTER(true);
  auto& link = *reinterpret_cast<Link*>(handle);
  fake::Module module{current(), {}};
  Result result = parse_image(static_cast<const char*>(data), module, link.errors, link.error_bytes);
  if (result == Result::Success) link.cubin = to_cubin(static_cast<const char*>(data));
  return result;
}

FAKE_ENTRY cuLinkComplete(LinkHandle handle, void** cubin, std::size_t* bytes) {
  ENTER(true);
  auto& link = *reinterpret_cast<Link*>(handle);
  *cubin = link.cubin.data();
  *bytes = link.cubin.size();
  return Result::Success;
}

FAKE_ENTRY cuLinkDestroy(LinkHandle handle) {
  ENTER(true);
  delete reinterpret_cast<Link*>(handle);
  state().count("links", -1, handle);
  return Result::Success;
}

// --- Memory ------------------------------------------------------------------------------------------------

FAKE_ENTRY cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  ENTER(true);
  auto all = state().setting("memory_bytes");
  std::lock_guard lock(state().mutex);
  *total = static_cast<std::size_t>(all);
  *free = static_cast<std::size_t>(all - state().device_bytes[current()->device]);
  return Result::Success;
}

FAKE_ENTRY cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  ENTER(true);
  *pointer = reinterpret_cast<DevicePointer>(allocate(current()->device, bytes, nullptr));
  return *pointer ? Result::Success : Result::OutOfMemory;
}

FAKE_ENTRY cuMemFree_v2(DevicePointer pointer) {
  ENTER(true);
  return release(memory(pointer)) ? Result::Success : Result::InvalidValue;
}

FAKE_ENTRY cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ENTER(true);
  *pointer = allocate(-1, bytes, nullptr);
  return Result::Success;
}

FAKE_ENTRY cuMemFreeHost(void* pointer) {
  ENTER(true);
  return release(pointer) ? Result::Success : Result::InvalidValue;
}

FAKE_ENTRY cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  ENTER(true);
  if (!in_bounds(memory(to), bytes) || !in_bounds(memory(from), bytes)) return Result::InvalidValue;
  return push(stream, [=] { std::memcpy(memory(to), memory(from), bytes); });
}

FAKE_ENTRY cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, StreamHandle stream) {
  ENTER(true);
  if (!in_bounds(memory(to), count)) return Result::InvalidValue;
  return push(stream, [=] { std::memset(memory(to), value, count); });
}

FAKE_ENTRY cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  ENTER(true);
  std::lock_guard lock(state().mutex);
  auto next = state().blocks.upper_bound(pointer);
  if (next == state().blocks.begin()) return Result::InvalidValue;
  --next;
  if (pointer >= next->first + next->second.bytes) return Result::InvalidValue;
  int device = next->second.device;
  if (attribute == pointer_attribute_device_pointer) {
    if (device >= 0 && device != current()->device) return Result::InvalidValue; // no peer access here
    std::memcpy(value, &pointer, sizeof pointer);
  } else if (attribute == pointer_attribute_is_managed) {
    std::memset(value, 0, 1);
  } else if (attribute == pointer_attribute_memory_type) {
    unsigned type = device < 0 ? 1 : memory_type_device;
    std::memcpy(value, &type, sizeof type);
  } else {
    std::memcpy(value, &device, sizeof device);
  }
  return Result::Success;
}

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuMemPoolCreate(PoolHandle* handle, const PoolProperties* properties) {
  ENTER(false);
  auto* pool = new Pool;
  pool->device = properties->location_id;
  *handle = reinterpret_cast<PoolHandle>(pool);
  state().count("pools", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolSetAttribute(PoolHandle, int, void*) {
  ENTER(false);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolGetAttribute(PoolHandle handle, int attribute, void* value) {
  ENTER(false);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  long long bytes = pool.used + (attribute == pool_reserved_mem_current ? pool.cached.load() : 0);
  std::memcpy(value, &bytes, sizeof bytes);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolTrimTo(PoolHandle handle, std::size_t bytes) {
  ENTER(false);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  pool.cached = std::min(pool.cached.load(), static_cast<long long>(bytes));
  return Result::Success;
}

FAKE_ENTRY cuMemAllocFromPoolAsync(DevicePointer* pointer, std::size_t bytes, PoolHandle pool,
                                   StreamHandle stream) {
  ENTER(true);
  *pointer =
      reinterpret_cast<DevicePointer>(allocate(current()->device, bytes, reinterpret_cast<Pool*>(pool)));
  if (fake::Stream& s = stream_of(stream); s.capturing && *pointer)
    s.captured_memory->blocks.push_back(memory(*pointer));
  return *pointer ? Result::Success : Result::OutOfMemory;
}

FAKE_ENTRY cuMemFreeAsync(DevicePointer pointer, StreamHandle stream) {
  ENTER(true);
  if (stream_of(stream).capturing) return Result::Success; // the graph's
  return push(stream, [=] { release(memory(pointer)); });
}
#endif

// --- Streams and events ------------------------------------------------------------------------------------

FAKE_ENTRY cuStreamCreate(StreamHandle* handle, unsigned) {
  ENTER(true);
  *handle = reinterpret_cast<StreamHandle>(new fake::Stream(*current()));
  state().count("streams", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuStreamDestroy_v2(StreamHandle handle) {
  ENTER(true);
  auto* stream = &stream_of(handle);
  stream->wait();
  delete stream;
  state().count("streams", -1, handle);
  return Result::Success;
}

FAKE_ENTRY cuStreamQuery(StreamHandle handle) {
  ENTER(true);
  return stream_of(handle).idle() ? lost(*current()) : Result::NotReady;
}

FAKE_ENTRY cuStreamSynchronize(StreamHandle handle) {
  ENTER(true);
  if (stream_of(handle).capturing) return Result::StreamCaptureUnsupported;
  stream_of(handle).wait();
  return lost(*current());
}

FAKE_ENTRY cuStreamWaitEvent(StreamHandle handle, EventHandle event, unsigned) {
  ENTER(true);
  EventOwner e = event_of(event);
  long version;
  {
    std::lock_guard lock(e->mutex);
    version = e->recorded;
  }
  return push(handle, [e, version] {
    std::unique_lock lock(e->mutex);
    e->changed.wait(lock, [&] { return e->completed >= version; });
  });
}

FAKE_ENTRY cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* argument) {
  ENTER(true);
  return push(handle, [=] { function(argument); });
}

FAKE_ENTRY cuEventCreate(EventHandle* event, unsigned) {
  ENTER(true);
  *event = reinterpret_cast<EventHandle>(new EventOwner(std::make_shared<fake::Event>()));
  state().count("events", 1, *event);
  return Result::Success;
}

FAKE_ENTRY cuEventDestroy_v2(EventHandle event) {
  ENTER(true);
  delete reinterpret_cast<EventOwner*>(event);
  state().count("events", -1, event);
  return Result::Success;
}

FAKE_ENTRY cuEventRecord(EventHandle event, StreamHandle handle) {
  ENTER(true);
  EventOwner e = event_of(event);
  long version;
  {
    std::lock_guard lock(e->mutex);
    version = ++e->recorded;
  }
  // Completes on a lost device too.
  stream_of(handle).push([e, version] {
    std::lock_guard lock(e->mutex);
    e->completed = version;
    e->time = std::chrono::steady_clock::now();
    e->changed.notify_all();
  });
  return Result::Success;
}

FAKE_ENTRY cuEventQuery(EventHandle event) {
  ENTER(true);
  EventOwner e = event_of(event);
  std::lock_guard lock(e->mutex);
  return e->completed == e->recorded ? lost(*current()) : Result::NotReady;
}

FAKE_ENTRY cuEventSynchronize(EventHandle event) {
  ENTER(true);
  EventOwner e = event_of(event);
  std::unique_lock lock(e->mutex);
  e->changed.wait(lock, [&] { return e->completed == e->recorded; });
  return lost(*current());
}

FAKE_ENTRY cuEventElapsedTime(float* ms, EventHandle begin, EventHandle end) {
  ENTER(true);
  *ms = std::chrono::duration<float, std::milli>(event_of(end)->time - event_of(begin)->time).count();
  return Result::Success;
}

// --- Launches and graphs -----------------------------------------------------------------------------------

FAKE_ENTRY cuLaunchKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared_bytes, StreamHandle stream,
                          void** parameters, void**) {
  ENTER(true);
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(__func__, function, grid, block, shared_bytes, stream, parameters, nullptr, false);
}

FAKE_ENTRY cuLaunchCooperativeKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                     StreamHandle stream, void** parameters) {
  ENTER(true);
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return launch(__func__, function, grid, block, shared_bytes, stream, parameters, nullptr, true);
}

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  ENTER(true);
  const unsigned* cluster = nullptr;
  bool cooperative = false;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& a = config->attributes[i];
    if (a.id == launch_attribute_cluster) cluster = a.value.cluster;
    if (a.id == launch_attribute_cooperative) cooperative = a.value.cooperative;
  }
  return launch(__func__, function, config->grid, config->block, config->shared_bytes, config->stream,
                parameters, cluster, cooperative);
}
#endif

FAKE_ENTRY cuStreamBeginCapture_v2(StreamHandle handle, int) {
  ENTER(true);
  stream_of(handle).captured.clear();
  stream_of(handle).captured_memory = std::make_shared<GraphMemory>();
  stream_of(handle).capturing = true;
  return Result::Success;
}

FAKE_ENTRY cuStreamEndCapture(StreamHandle handle, GraphHandle* graph) {
  ENTER(true);
  fake::Stream& s = stream_of(handle);
  s.capturing = false;
  *graph = reinterpret_cast<GraphHandle>(
      new Graph{std::move(s.captured), current(), std::move(s.captured_memory)});
  state().count("graphs", 1, *graph);
  return Result::Success;
}

FAKE_ENTRY cuStreamIsCapturing(StreamHandle handle, int* status) {
  ENTER(true);
  *status = stream_of(handle).capturing;
  return Result::Success;
}

FAKE_ENTRY cuGraphGetNodes(GraphHandle graph, void**, std::size_t* count) {
  ENTER(true);
  *count = reinterpret_cast<Graph*>(graph)->commands.size();
  return Result::Success;
}

FAKE_ENTRY cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
  ENTER(true);
  *exec = reinterpret_cast<GraphExecHandle>(new Graph(*reinterpret_cast<Graph*>(graph)));
  state().count("execs", 1, *exec);
  return Result::Success;
}

FAKE_ENTRY cuGraphDestroy(GraphHandle graph) {
  ENTER(true);
  delete reinterpret_cast<Graph*>(graph);
  state().count("graphs", -1, graph);
  return Result::Success;
}

FAKE_ENTRY cuGraphLaunch(GraphExecHandle exec, StreamHandle handle) {
  ENTER(true);
  for (const auto& command : reinterpret_cast<Graph*>(exec)->commands)
    stream_of(handle).push(command);
  return Result::Success;
}

FAKE_ENTRY cuGraphExecDestroy(GraphExecHandle exec) {
  ENTER(true);
  delete reinterpret_cast<Graph*>(exec);
  state().count("execs", -1, exec);
  return Result::Success;
}
