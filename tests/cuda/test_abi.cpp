// Compares Kiln's declarations of the CUDA driver with cuda.h, if it is installed.
#include <kiln/jit/runtime/cuda/driver.h>

#include <catch2/catch.hpp>

#if __has_include(<cuda.h>) && __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

namespace k = kiln::cuda;

namespace kiln::cuda {
namespace {

// Arguments are passed in the same way if they have the same size and both or neither are pointers.
template <class A, class B>
inline constexpr bool travels_alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class A, class B> struct Alike : std::false_type {};
template <class... A, class... B> struct Alike<k::Result (*)(A...), CUresult (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B))
      return (travels_alike<A, B> && ...);
    else
      return false;
  }();
};

// The toolkit has a type for each version of each function. The versions in Kiln's table select the types to
// compare.
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...)                                                    \
  static_assert(Alike<Result (*)(__VA_ARGS__), PFN_##name##_v##version>::value);
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
SAME(k::Result::OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(k::Result::NotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(k::Result::Deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(k::Result::StubLibrary, CUDA_ERROR_STUB_LIBRARY);
SAME(k::Result::DeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(k::Result::NoDevice, CUDA_ERROR_NO_DEVICE);
SAME(k::Result::InvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME(k::Result::InvalidImage, CUDA_ERROR_INVALID_IMAGE);
SAME(k::Result::InvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME(k::Result::NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(k::Result::EccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(k::Result::InvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME(k::Result::NvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(k::Result::UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(k::Result::InvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME(k::Result::NotFound, CUDA_ERROR_NOT_FOUND);
SAME(k::Result::NotReady, CUDA_ERROR_NOT_READY);
SAME(k::Result::IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(k::Result::LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(k::Result::LaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(k::Result::ContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(k::Result::Assert, CUDA_ERROR_ASSERT);
SAME(k::Result::HardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(k::Result::IllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(k::Result::MisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(k::Result::InvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(k::Result::InvalidPc, CUDA_ERROR_INVALID_PC);
SAME(k::Result::LaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(k::Result::CooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SAME(k::Result::NotPermitted, CUDA_ERROR_NOT_PERMITTED);
SAME(k::Result::NotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME(k::Result::SystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(k::Result::SystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(k::Result::CompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(k::Result::StreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(k::Result::StreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(k::Result::Unknown, CUDA_ERROR_UNKNOWN);

SAME(k::DeviceAttribute::MaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(k::DeviceAttribute::MaxBlockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
SAME(k::DeviceAttribute::MaxBlockDimY, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
SAME(k::DeviceAttribute::MaxBlockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
SAME(k::DeviceAttribute::MaxGridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
SAME(k::DeviceAttribute::MaxGridDimY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
SAME(k::DeviceAttribute::MaxGridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
SAME(k::DeviceAttribute::MaxSharedMemoryPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(k::DeviceAttribute::WarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(k::DeviceAttribute::MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(k::DeviceAttribute::ClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(k::DeviceAttribute::MemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(k::DeviceAttribute::GlobalMemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(k::DeviceAttribute::MaxThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(k::DeviceAttribute::MaxSharedMemoryPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(k::DeviceAttribute::MaxRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME(k::DeviceAttribute::L2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(k::DeviceAttribute::ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(k::DeviceAttribute::ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(k::DeviceAttribute::CooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME(k::DeviceAttribute::MaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(k::DeviceAttribute::MemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(k::DeviceAttribute::ClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);

SAME(k::FunctionAttribute::MaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(k::FunctionAttribute::SharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(k::FunctionAttribute::LocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(k::FunctionAttribute::NumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(k::FunctionAttribute::MaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(k::FunctionAttribute::NonPortableClusterSizeAllowed,
     CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

SAME(k::JitOption::InfoLogBuffer, CU_JIT_INFO_LOG_BUFFER);
SAME(k::JitOption::InfoLogBufferSizeBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(k::JitOption::ErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME(k::JitOption::ErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(k::JitOption::LogVerbose, CU_JIT_LOG_VERBOSE);
SAME(k::jit_input_ptx, CU_JIT_INPUT_PTX);
SAME(k::stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(k::host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME(k::capture_mode_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(k::pool_release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME(k::pool_reserved_mem_current, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(k::pool_used_mem_current, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME(k::pointer_attribute_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(k::pointer_attribute_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(k::memory_type_device, CU_MEMORYTYPE_DEVICE);
SAME(k::launch_attribute_cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(k::launch_attribute_cluster, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(k::PoolProperties{}.allocation_type, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(k::PoolProperties{}.location_type, CU_MEM_LOCATION_TYPE_DEVICE);

static_assert(sizeof(k::LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME(offsetof(k::LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
static_assert(sizeof(k::LaunchConfig) == sizeof(CUlaunchConfig));
SAME(offsetof(k::LaunchConfig, grid), offsetof(CUlaunchConfig, gridDimX));
SAME(offsetof(k::LaunchConfig, block), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(k::LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(k::LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(k::LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(k::LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(k::PoolProperties) == sizeof(CUmemPoolProps));
SAME(offsetof(k::PoolProperties, allocation_type), offsetof(CUmemPoolProps, allocType));
SAME(offsetof(k::PoolProperties, location_type), offsetof(CUmemPoolProps, location));
SAME(offsetof(k::PoolProperties, max_size), offsetof(CUmemPoolProps, maxSize));

} // namespace
} // namespace kiln::cuda
#endif

#include "cuda_test.h"

#include <dlfcn.h>

// The toolkit's stub has the driver's symbols but no code. All names in Kiln's table, with their suffixes,
// must be there.
TEST_CASE("every entry point has its name in the toolkit's stub library") {
  void* stub = nullptr;
  for (const char* path :
       {"/usr/local/cuda/lib64/stubs/libcuda.so", "/usr/lib/x86_64-linux-gnu/stubs/libcuda.so"})
    if (!stub) stub = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!stub) {
    WARN("skipped: there is no CUDA toolkit with a stub of libcuda.so");
    return;
  }
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...)                                                    \
  CHECK(dlsym(stub, (std::string(#name) + suffix).c_str()));
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
}
