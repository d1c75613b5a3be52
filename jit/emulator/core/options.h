// Defines the options of an emulated GPU, and the shape of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::emulator {

// The optional checks. Bounds, alignment, lifetimes of allocations, barriers and mbarriers are always
// checked.
struct Checks {
  bool uninitialised = false; // uses of memory that was never written (unwritten.h)
  bool races = false;         // found by vector clocks (checks/races.h)

  static Checks all() { return {true, true}; }
  // Parses a list such as "races,init,bounds". The words are races, init, bounds, barriers (these two change
  // nothing), all and none. Throws UserError for other words.
  static Checks parse(std::string_view list);
};

// When asynchronous copies and wgmma take effect: at random moments that the seed determines, at their issue,
// or when a warp waits for them (async_operations.h).
enum class Asynchrony : std::uint8_t { Random, Earliest, Latest };

struct Options {
  std::string arch = "sm_80";
  std::uint64_t seed = 0;
  Checks checks = {};
  Asynchrony asynchrony = Asynchrony::Random;
  // The most warp instructions that a launch may execute; a block's start counts too.
  std::uint64_t instruction_budget = 2'000'000'000;
  int resident_blocks = 1; // blocks that run interleaved; at least one cluster
  // The number of host threads that run blocks. Results and reports do not depend on it. Only one thread runs
  // kernels whose blocks may communicate (by atomics and fences in global memory), launches with race checks,
  // and launches with a probe.
  int threads = 1;
  bool stop_at_first = false;     // ends the launch at the first finding
  std::size_t most_reports = 100; // findings at different places; the rest are only counted
};

struct Extent { // {128} means 128 x 1 x 1
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint32_t operator[](std::size_t axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
};

struct Launch {
  Extent grid = {}, block = {};
  std::uint64_t shared_bytes = 0;     // dynamic
  std::optional<Extent> cluster = {}; // in blocks; if absent, that of the kernel (.reqnctapercluster)
  // Allows clusters of 9 to 16 blocks, as cudaFuncAttributeNonPortableClusterSizeAllowed does.
  bool non_portable_cluster = false;
};

} // namespace kiln::emulator
