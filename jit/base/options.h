// The switches that the environment sets, read once when the first of them is needed.
//
//   KILN_DEBUG        0 or 1: bounds checks and device asserts in kernels
//   KILN_PERF         0 or 1: list compiled kernels in /tmp/perf-PID.map, so that `perf report` names them
//   KILN_KEEP         comma list of tile, llvm, ptx, cubin, asm: write these while compiling
//   KILN_KEEP_DIR     where to write them; default ./kiln-keep
//   KILN_LOG          off, error, warning (default), info, debug: what goes to stderr
//   KILN_CACHE_DIR    the kernel cache on disk; default $XDG_CACHE_HOME/kiln or ~/.cache/kiln
//   KILN_CACHE_LIMIT  how large that cache may grow: bytes, or with suffix K, M or G; default 2G
//   KILN_NUM_THREADS  threads that run a CPU kernel, the launching one included; default: all CPUs
//   KILN_COMPILE_POLICY  allow, warn, forbid: see compile_policy.h
//   KILN_CPU          CPU to compile for, as LLVM names it; default: the one found
//   KILN_CUDA_LIBRARY  the NVIDIA driver's library; default: libcuda.so.1
//   KILN_EMULATE_CHECK  what emulated GPUs look for: see EmulatorOptions in device.h
//   KILN_EMULATE_SEED  and in which order their warps run
//   KILN_EMULATE_THREADS  and how many threads run their blocks; default 1
//   KILN_PTXAS        NVIDIA's assembler; default: on PATH or in /usr/local/cuda/bin; empty: the driver's own
//   KILN_PTXAS_TIMEOUT  seconds that it may take for a kernel, and then the driver assembles; default 120
//
// A value that is not understood is warned about once, with the legal ones, and the default holds.
// Thread-safe.
#pragma once

#include <kiln/jit/base/log.h>

#include <string>
#include <vector>

namespace kiln {

struct KeepFiles {
  bool tile = false;
  bool llvm = false;
  bool ptx = false;
  bool cubin = false;
  bool assembly = false;
  bool any() const { return tile || llvm || ptx || cubin || assembly; }
  bool operator==(const KeepFiles&) const = default;
};

struct Options {
  bool debug = false;
  bool perf = false;
  KeepFiles keep;
  std::string keep_dir = "kiln-keep";
  LogLevel log = LogLevel::Warning;
  std::string cache_dir;    // empty: there is nowhere to cache, compile every time
  int num_threads = 0;      // 0: as many as the process may use
  std::string cpu;          // empty: the CPU found at run time
  std::string cuda_library; // empty: libcuda.so.1; read when CUDA is first asked for
  int ptxas_seconds = 120;  // that ptxas may take
};

struct ParsedOptions {
  Options options;
  std::vector<std::string> warnings;
};

// Reads options from any source of variables: `lookup(name, context)` returns a value or null.
ParsedOptions parse_options(const char* (*lookup)(const char* name, void* context), void* context);

// The options in force: those of the environment, or of the newest ScopedOptions.
const Options& options();

// Replaces the options while it lives, for tests and tools. What was configured already (the shared
// thread pool) keeps what it read. Scopes must end in the reverse order, with no launch in flight.
class ScopedOptions {
public:
  explicit ScopedOptions(Options replacement);
  ~ScopedOptions();
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

private:
  Options options_;
  const Options* previous_;
};

} // namespace kiln
