// The options of an emulated GPU, and the shape of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::emulator {

// What is looked for. Bounds, alignment, life of allocations, barriers and mbarriers always are.
struct Checks {
  bool uninitialised = false; // uses of memory nothing wrote (unwritten.h)
  bool races = false;         // by vector clocks (checks/races.h)

  static Checks all() { return {true, true}; }
  // "races,init,bounds": a list of races, init, bounds, barriers (the last two change nothing), all and none.
  // UserError for other words.
  static Checks parse(std::string_view list);
};

// When asynchronous copies and wgmma take effect: at moments of the seed's choice, at their issue, or when
// something waits for them (async_operations.h).
enum class Asynchrony : std::uint8_t { Random, Earliest, Latest };

struct Options {
  std::string arch = "sm_80";
  std::uint64_t seed = 0;
  Checks checks = {};
  Asynchrony asynchrony = Asynchrony::Random;
  std::uint64_t instruction_budget = 2'000'000'000; // of warps, in one launch; a block's start counts too
  int resident_blocks = 1;                          // that run interleaved (a cluster at least)
  // Threads of the host that run blocks, with the same results and reports as one. Kernels whose blocks may
  // speak to each other (atomics and fences in global memory), launches with race checks and those with a
  // probe have one whatever is said here.
  int threads = 1;
  bool stop_at_first = false;     // report
  std::size_t most_reports = 100; // of different places; the rest are counted
};

struct Extent { // {128} is 128 x 1 x 1
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint32_t operator[](std::size_t axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
};

struct Launch {
  Extent grid = {}, block = {};
  std::uint64_t shared_bytes = 0;     // dynamic
  std::optional<Extent> cluster = {}; // blocks; without, what the kernel says (.reqnctapercluster)
  // cudaFuncAttributeNonPortableClusterSizeAllowed: clusters of 9 to 16 blocks.
  bool non_portable_cluster = false;
};

} // namespace kiln::emulator
