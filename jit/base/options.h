// Reads the environment variables that configure Kiln. No other file of the library reads a KILN_ variable.
//
//   KILN_DEBUG             0 or 1: bounds checks and device_assert; GPU launches wait for their kernels
//   KILN_PERF              0 or 1: list compiled kernels in /tmp/perf-PID.map, where `perf` finds names
//   KILN_LOG               off, error, warning (default), info, debug: which messages go to stderr
//   KILN_KEEP              comma list of tile, llvm, ptx, cubin, asm: write these for each kernel
//   KILN_KEEP_DIR          folder for these files; default ./kiln-keep
//   KILN_CACHE_DIR       * folder of the kernel cache; default $XDG_CACHE_HOME/kiln or $HOME/.cache/kiln
//   KILN_CACHE_LIMIT     * its largest size in bytes, or with suffix K, M or G; default 2G; 0: no cache
//   KILN_COMPILE_POLICY    allow (default), warn or forbid: see jit/runtime/kernel/compile_policy.h
//   KILN_NUM_THREADS       threads that run a CPU kernel, the launching thread included; default: all CPUs
//   KILN_CPU               CPU to compile for, by LLVM's name (haswell, znver4); default: this machine's
//   KILN_CUDA_LIBRARY      library of the NVIDIA driver; default: libcuda.so.1
//   KILN_PTXAS             NVIDIA's assembler; default: on PATH or in /usr/local/cuda/bin; empty: none
//   KILN_PTXAS_TIMEOUT     seconds after which ptxas is killed and the driver assembles instead; default 120
//   KILN_EMULATE_CHECK   * checks of emulated GPUs: see EmulatorOptions in jit/runtime/device.h
//   KILN_EMULATE_SEED    * seed of the order in which their warps run
//   KILN_EMULATE_THREADS * threads that run their blocks
//   KILN_TUNE            * default mode of tuned kernels: see autotune/mode.h
//   KILN_WISDOM          * wisdom files, separated by ':': see autotune/records/database.h
//   KILN_RANKS_TRACE     * file for a trace of what ranks compute and send: see collectives/ranks.h
//   KILN_COMMAND         * path of the kiln command, which the tuner starts
//
// Variables without * are read once, when Kiln first needs one of them; those with * when they are used: when
// the cache is opened, a device is named or a tuned kernel is first called, for example. An empty value
// counts as unset, except that of KILN_PTXAS. A value that is not understood gives one warning that lists the
// legal ones, and the default holds; but wrong values of KILN_CPU, KILN_EMULATE_*, KILN_TUNE and KILN_COMMAND
// are UserErrors where they are used. Thread-safe, provided that no thread changes the environment meanwhile.
#pragma once

#include <kiln/jit/base/log.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct KeepFiles {
  bool tile = false;
  bool llvm = false;
  bool ptx = false;
  bool cubin = false;
  bool assembly = false;
  bool any() const { return tile || generated(); }
  bool generated() const { return llvm || ptx || cubin || assembly; } // what only a compilation yields
  bool operator==(const KeepFiles&) const = default;
};

struct Options {
  bool debug = false;
  bool perf = false;
  LogLevel log = LogLevel::Warning;
  KeepFiles keep;
  std::string keep_dir = "kiln-keep";
  std::string cache_dir;                              // empty: nothing is cached on disk
  std::uint64_t cache_limit = std::uint64_t{2} << 30; // bytes
  std::string compile_policy = "allow";               // allow, warn or forbid
  int num_threads = 0;                                // 0: as many as the process may use
  std::string cpu;                                    // empty: the CPU of this machine
  std::string cuda_library;                           // empty: libcuda.so.1
  std::optional<std::string> ptxas;                   // nothing: search; empty: use none
  int ptxas_seconds = 120;

  // Text that other files parse; empty if unset.
  std::string emulate_check, emulate_seed, emulate_threads;
  std::string tune, wisdom, ranks_trace, command;
};

struct ParsedOptions {
  Options options;
  std::vector<std::string> warnings;
};

// Reads options from any source of variables: `lookup(name, context)` returns a value or null.
ParsedOptions parse_options(const char* (*lookup)(const char* name, void* context), void* context);

// The names of all variables that parse_options looks up, with XDG_CACHE_HOME and HOME, which give the
// default of KILN_CACHE_DIR.
std::vector<std::string> option_variables();

// The options in force: those of the newest ScopedOptions, or else of the environment.
const Options& options();

// The options of the environment as it was when the first option was read, also while a ScopedOptions lives:
// for what is configured once for the whole process.
const Options& environment_options();

// The options of the environment as it is now, for the variables marked * above.
Options read_environment();

// Replaces the options while this object lives, for tests and tools. Objects that were configured before,
// such as the shared thread pool, do not change. Scopes must end in reverse order, with no launch in flight.
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
