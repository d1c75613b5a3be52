// Defines the report of a launch: its findings, its output, and the number of executed instructions.
#pragma once

#include "program.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::emulator {

enum class Fault : std::uint8_t {
  OutOfBounds,
  UseAfterFree,
  Misaligned,
  ReadOnly,
  Uninitialised,
  BarrierDivergence,
  Deadlock,
  Budget,
  StackOverflow,
  Assertion,
  Trap,
  IllegalOperand,
  RaceShared, // two accesses, at least one of them a write, that nothing orders
  RaceGlobal,
  MissingProxyFence, // the async proxy accesses what the generic proxy wrote, without a fence.proxy.async
  ByteCount,         // an mbarrier gets fewer or more bytes than it expects
  Unfinished,        // a block ended while an asynchronous operation used its shared memory
  LiveMbarrier,      // an mbarrier's 64 bits are used as data or initialised again before mbarrier.inval
  NonCoherent,       // ld.global.nc reads what the kernel itself wrote
  InFlight,          // memory or registers of an asynchronous operation are accessed before it has ended
};
const char* name_of(Fault fault);

// The other access of a race.
struct OtherAccess {
  std::string what; // "write by st.shared.u32"
  int ptx_line = 0;
  std::string source;
  std::array<std::uint32_t, 3> block{}, thread{};
};

// One mistake at one instruction, reported for the first thread that made it.
struct Finding {
  Fault fault;
  std::string message; // one line that contains all members below
  std::string kernel;
  int ptx_line = 0;
  std::string source; // "file:line", if there is a .loc
  std::array<std::uint32_t, 3> block{}, thread{};
  std::uint64_t times = 1;               // number of lanes
  std::optional<OtherAccess> other = {}; // for races only
};

// How often an instruction was executed, by warps and by lanes.
struct Tally {
  std::uint64_t warps = 0, lanes = 0;
};

struct Report {
  std::string kernel;
  std::vector<Finding> findings;
  std::uint64_t left_out = 0; // number of findings beyond Options::most_reports
  bool finished = true;       // whether all threads ran to their end
  std::string printed;        // output of printf in the kernel
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::array<std::uint64_t, instruction_classes> lanes_by_class{};

  bool ok() const { return findings.empty() && finished; }
  std::string text() const; // one line for each finding
  std::string json() const;
};

} // namespace kiln::emulator
