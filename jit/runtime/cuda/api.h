// Declares the types of the CUDA driver that Kiln uses, so that no header of the CUDA toolkit is needed.
// Internal.
//
// Names and values are those of the driver (CUDA 12.0 and newer). tests/cuda/test_abi.cpp compares all sizes,
// values and signatures with cuda.h if it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::cuda {

// CUresult, with the values that Kiln distinguishes. The names of all others come from the driver.
enum class Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  NvlinkUncorrectable = 220,
  UnsupportedPtxVersion = 222,
  Contained = 226,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  ContextIsDestroyed = 709,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  CooperativeLaunchTooLarge = 720,
  TensorMemoryLeak = 721,
  NotPermitted = 800,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupportedOnDevice = 804,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  Unknown = 999,
};

using DeviceHandle = int;            // CUdevice
using DevicePointer = std::uint64_t; // CUdeviceptr
using ContextHandle = struct ContextTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using PoolHandle = struct PoolTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;
using LinkHandle = struct LinkTag*;
using HostFunction = void (*)(void* argument);

// CUdevice_attribute
enum class DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxBlockDimX = 2,
  MaxBlockDimY = 3,
  MaxBlockDimZ = 4,
  MaxGridDimX = 5,
  MaxGridDimY = 6,
  MaxGridDimZ = 7,
  MaxSharedMemoryPerBlock = 8,
  WarpSize = 10,
  ClockRate = 13, // kilohertz
  MultiprocessorCount = 16,
  MemoryClockRate = 36,      // kilohertz
  GlobalMemoryBusWidth = 37, // bits
  L2CacheSize = 38,
  MaxThreadsPerMultiprocessor = 39,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  PageableMemoryAccess = 88,
  CooperativeLaunch = 95,
  MaxSharedMemoryPerBlockOptin = 97,
  MemoryPoolsSupported = 115,
  ClusterLaunch = 120,
};

// CUfunction_attribute
enum class FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  SharedSizeBytes = 1,
  LocalSizeBytes = 3,
  NumRegs = 4,
  MaxDynamicSharedSizeBytes = 8,
  NonPortableClusterSizeAllowed = 14,
};

// CUjit_option
enum class JitOption : int {
  InfoLogBuffer = 3,
  InfoLogBufferSizeBytes = 4,
  ErrorLogBuffer = 5,
  ErrorLogBufferSizeBytes = 6,
  LogVerbose = 12,
};

inline constexpr int jit_input_ptx = 1;                    // CU_JIT_INPUT_PTX
inline constexpr unsigned stream_non_blocking = 1;         // CU_STREAM_NON_BLOCKING
inline constexpr unsigned host_alloc_portable = 1;         // CU_MEMHOSTALLOC_PORTABLE
inline constexpr int capture_mode_relaxed = 2;             // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int pool_release_threshold = 4;           // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64
inline constexpr int pool_reserved_mem_current = 5;        // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, uint64
inline constexpr int pool_used_mem_current = 7;            // CU_MEMPOOL_ATTR_USED_MEM_CURRENT, uint64
inline constexpr int pointer_attribute_memory_type = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unsigned
inline constexpr int pointer_attribute_device_pointer = 3; // CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CUdeviceptr
inline constexpr int pointer_attribute_is_managed = 8;     // CU_POINTER_ATTRIBUTE_IS_MANAGED, bool
inline constexpr int pointer_attribute_device_ordinal = 9; // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, int
inline constexpr unsigned memory_type_device = 2;          // CU_MEMORYTYPE_DEVICE
inline constexpr int launch_attribute_cooperative = 2;     // CU_LAUNCH_ATTRIBUTE_COOPERATIVE, int
inline constexpr int launch_attribute_cluster = 4; // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 3 unsigned

// CUlaunchAttribute
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    unsigned cluster[3];
    int cooperative;
    char bytes[64];
  } value;
};

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUmemPoolProps
struct PoolProperties {
  int allocation_type = 1; // CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;    // none: memory is not shared with other processes
  int location_type = 1;   // CU_MEM_LOCATION_TYPE_DEVICE
  int location_id = 0;
  void* security_attributes = nullptr;
  std::size_t max_size = 0; // 0: chosen by the system
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

} // namespace kiln::cuda
