// Defines a GPU in software, which executes the PTX text that a driver would get.
//
// The path of a kernel. `Module::parse` reads PTX text into a tree of names (ptx/: lexer, parser).
// `Gpu::launch` decodes the entry and the functions that it calls (instructions/). Each instruction is
// decoded once, into an `Instruction` (core/program.h) that holds the function that executes it and the
// offsets of its registers. Then blocks run, one after the other unless `resident_blocks` allows more, as
// warps of 32 lanes.
//
// Layers. ptx/ knows nothing of the rest. core/ executes, and includes ptx/ only. instructions/ and checks/
// include core/ and not each other. The files in this folder put them together.
//
// Lanes are vectors. A register of a warp is an array of 32 values, an instruction is a loop over it that the
// compiler turns into vector code (core/alu_lanes.inc, compiled for three instruction sets), and a predicate
// is a 32-bit mask. A guarded or divergent instruction computes all lanes and keeps those of its mask.
//
// Divergence. Lanes that took different paths are fragments {position, mask, frame} of a warp (core/warp.h).
// The fragment that is deepest in calls runs, and of several the one that is first in the text. Two fragments
// at the same position become one again, which reconverges structured code. A fragment that has run for long
// while others could is set aside, so that lanes may wait for each other in loops (independent thread
// scheduling). Warp-wide instructions (shfl, vote, mma, ...) wait for their members, which may arrive by
// different instructions; `.aligned` ones wait for all live lanes at one position (core/divergence.h says
// which lanes may have exited before). bar.sync collects warps in the block (core/block.h).
//
// Interleavings. A generator that `Options::seed` seeds picks the next warp, the number of instructions that
// it runs, and the moments at which asynchronous effects happen; the same seed gives the same run. Even seeds
// mostly have long time slices, which are fast; odd ones have short slices, which find more. When no warp can
// continue, the report says which warp waits where.
//
// Memory (core/memory.h). Device addresses are host addresses. Reports show others, which are the same in
// every run. The emulator knows every allocation, so that each access is checked for bounds, lifetime and
// alignment. Shared and local memory have windows of generic addresses. With `Checks::uninitialised`, every
// byte has a shadow that records whether it was written. Registers have shadow bits only while they hold
// unwritten data, which is reported when an instruction uses it (core/unwritten.h).
//
// A kernel that reads %envreg1 or %envreg2, the address of the grid's workspace, as grid.sync() of
// cooperative groups does, has all its blocks resident together, as in a cooperative launch.
//
// Host threads. Blocks that cannot communicate may run on several threads (`Options::threads`). Each group of
// blocks that runs together has a generator seeded from the seed and its own index, so that results and
// reports do not depend on the number of threads.
//
// Probes. Checks and counters (counters.h) observe a kernel through `Probe` (core/probe.h): every access with
// its lanes' addresses, every synchronisation, every asynchronous effect when it is issued and when it
// happens. The interpreter calls the probe at few places, and no instruction knows which probes there are.
// Asynchronous copies and wgmma are asynchronous operations of the block (core/async_operations.h), which
// take effect at any moment between their issue and the wait for them. Tensor copies use maps that `encode`
// makes (core/tensor_map.h). core/wgmma.h says how descriptors are read and in which order a wgmma sums.
// Blocks of a cluster are resident together, and an address of shared memory contains the block's rank
// (core/memory.h).
//
//   auto module = emulator::Module::parse(ptx_text, "add.ptx");
//   emulator::Gpu gpu({.arch = "sm_80", .seed = 7});
//   auto x = gpu.allocate(4096);
//   gpu.write(x, values.data(), 4096);
//   std::uint64_t words[] = {x, 1024};
//   emulator::Report report = gpu.launch(module, "add", {.grid = {8}, .block = {128}}, words);
//   if (!report.ok()) std::puts(report.text().c_str());
//
// A Gpu is used by one thread at a time; a Module may be shared between threads.
#pragma once

#include <kiln/jit/emulator/core/options.h>
#include <kiln/jit/emulator/core/report.h>
#include <kiln/jit/emulator/core/tensor_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kiln::emulator {

class Module {
public:
  // Throws UserError "name:LINE: ..." for text that is not PTX, or that contains what the parser does not
  // know.
  static std::shared_ptr<const Module> parse(std::string text, std::string name);
  std::vector<std::string> kernels() const;
  const ptx::Module& tree() const { return *tree_; }

private:
  std::unique_ptr<ptx::Module> tree_;
};

// The bytes of shared memory that a block may have on an architecture such as "sm_90a".
std::uint64_t shared_bytes_of(const std::string& arch);

class Probe;

class Gpu {
public:
  explicit Gpu(Options options = {});
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Allocates device memory, which counts as unwritten at first and has unused bytes on both sides. An access
  // after `free` is reported as a use after free.
  std::uint64_t allocate(std::uint64_t bytes, std::string name = "");
  void free(std::uint64_t address); // throws UserError unless `allocate` returned it
  void write(std::uint64_t to, const void* from, std::uint64_t bytes);
  void read(void* to, std::uint64_t from, std::uint64_t bytes) const;
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes); // unwritten bytes stay unwritten
  // Makes host memory device memory at its own address until `forget`. It counts as written.
  void share(void* host, std::uint64_t bytes, std::string name = "", bool writable = true);
  void forget(void* host);
  // The address and size of a module's .global or .const variable, which lives as long as the Gpu.
  std::pair<std::uint64_t, std::uint64_t> variable(std::shared_ptr<const Module> module,
                                                   const std::string& name);

  // Runs a kernel to its end. `words` has one word for each parameter, of which the low bytes are used.
  // Throws UserError for mistakes that are found before the kernel runs (no such kernel, an unknown
  // instruction, wrong arguments, an impossible grid); mistakes of the running kernel are in the report.
  Report launch(std::shared_ptr<const Module> module, const std::string& kernel, const Launch& launch,
                std::span<const std::uint64_t> words);
  // Does the same with the parameters' bytes laid out as the kernel declares them.
  Report launch_packed(std::shared_ptr<const Module> module, const std::string& kernel, const Launch& launch,
                       std::span<const std::byte> parameters);

  Options& options();
  void attach(Probe* probe); // the probe must live until it is detached; null detaches it

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::emulator
