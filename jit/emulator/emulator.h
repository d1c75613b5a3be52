// A GPU in software: runs the very PTX text that would go to a driver.
//
// The way of a kernel: `Module::parse` reads PTX text into a tree of names (ptx/: lexer, parser).
// `Gpu::launch` decodes the entry and what it calls (instructions/): every instruction once, into an `Instruction`
// (program.h) with a function that executes it and the places of its registers. Then blocks run, one after
// the other unless `resident_blocks` asks for more, each as warps of 32 lanes.
//
// Lanes are vectors. A register of a warp is an array of 32 values, an instruction a loop over it that the
// compiler turns into vector code (alu_lanes.inc, compiled for three machines), a predicate a 32-bit mask.
// A guarded or diverged instruction computes all lanes and keeps those of its mask.
//
// Divergence. Lanes that went different ways are fragments {position, mask, frame} of a warp (warp.h). The
// fragment deepest in calls, then first in the text, runs; where two meet they become one again. That
// reconverges structured code, and a fragment that runs for long while others could is set aside, so that
// lanes may wait for each other in loops (independent thread scheduling). Warp-wide instructions (shfl, vote,
// mma...) wait for their members, who may come by different instructions; `.aligned` ones for all living
// lanes at one place (divergence.h says who may have exited before). bar.sync collects warps in the block
// (block.h).
//
// Interleavings. A generator seeded by `Options::seed` picks the next warp and how long it runs, and when
// asynchronous effects happen; the same seed gives the same run. Even seeds mostly have long turns, which are
// quick; odd ones have short ones, which find more. When nobody can go on, the report says who
// waits where.
//
// Memory (memory.h). Device addresses are host addresses, and reports show others, the same in every run; the
// emulator knows every allocation, so each access is checked for bounds, life and alignment. Shared and local
// memory have windows of generic addresses. With `Checks::uninitialised`, every byte has a shadow that tells
// whether it was written; registers have one only where they hold what nothing wrote, which is told when
// something uses it (unwritten.h).
//
// A kernel that reads %envreg1 or 2, the address of the grid's workspace, as grid.sync() of cooperative
// groups does, has all its blocks resident together, as in a cooperative launch.
//
// Host threads. Blocks that cannot tell of each other may run on several (`Options::threads`): each cluster
// draws its order from the seed and its own index, so that results and reports do not depend on how many.
//
// What plugs in. Checks and counters (counters.h) observe through `Probe` (probe.h): every access with its
// lanes' addresses, every synchronisation, every asynchronous effect when issued and when performed. The
// interpreter asks for a probe at few places and none of the instructions knows who listens. Asynchronous
// copies and wgmma are flights of the block (async_operations.h), which take effect at any moment between their issue
// and their wait. Tensor copies go by maps that `encode` makes (tensor_map.h); wgmma.h says how descriptors
// are read and in which order a wgmma sums. Blocks of a cluster are resident together, and an address of
// shared memory carries the block's rank (memory.h).
//
//   auto module = emulator::Module::parse(ptx_text, "add.ptx");
//   emulator::Gpu gpu({.arch = "sm_80", .seed = 7});
//   auto x = gpu.allocate(4096);
//   gpu.write(x, values.data(), 4096);
//   std::uint64_t words[] = {x, 1024};
//   emulator::Report report = gpu.launch(*module, "add", {.grid = {8}, .block = {128}}, words);
//   if (!report.ok()) std::puts(report.text().c_str());
//
// A Gpu is used by one thread at a time; a Module may be shared.
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
  // UserError "name:LINE: ..." for text that is not PTX, or that has what the parser does not know.
  static std::shared_ptr<const Module> parse(std::string text, std::string name);
  std::vector<std::string> kernels() const;
  const ptx::Module& tree() const { return *tree_; }

private:
  std::unique_ptr<ptx::Module> tree_;
};

// Bytes of shared memory that a block may have on "sm_90a", say.
std::uint64_t shared_bytes_of(const std::string& arch);

class Probe;

class Gpu {
public:
  explicit Gpu(Options options = {});
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Device memory: unwritten at first, with guards around it. An address is valid until it is freed, and
  // accesses after that are reported as such.
  std::uint64_t allocate(std::uint64_t bytes, std::string name = "");
  void free(std::uint64_t address); // UserError unless it came from allocate
  void write(std::uint64_t to, const void* from, std::uint64_t bytes);
  void read(void* to, std::uint64_t from, std::uint64_t bytes) const;
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes); // what was unwritten stays so
  // Host memory becomes device memory at its own address, written already, until `forget`.
  void share(void* host, std::uint64_t bytes, std::string name = "", bool writable = true);
  void forget(void* host);
  // Address and size of a module's .global or .const variable, which live as long as the Gpu.
  std::pair<std::uint64_t, std::uint64_t> variable(std::shared_ptr<const Module> module,
                                                   const std::string& name);

  // Runs a kernel to its end. `words`: one for each parameter, of which the low bytes count.
  // UserError for what can be said before running (no such kernel, instructions that are not known, wrong
  // arguments, absurd grids); what goes wrong in running is in the report.
  Report launch(std::shared_ptr<const Module> module, const std::string& kernel, const Launch& launch,
                std::span<const std::uint64_t> words);
  // The same with the parameters' bytes laid out as the kernel declares them.
  Report launch_packed(std::shared_ptr<const Module> module, const std::string& kernel, const Launch& launch,
                       std::span<const std::byte> parameters);

  Options& options();
  void attach(Probe* probe); // which must outlive its use; null detaches

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::emulator
