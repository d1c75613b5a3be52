// What the emulator reports of a launch: its findings and how much was executed.
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
  RaceShared, // two accesses, one of which writes, that nothing orders
  RaceGlobal,
  MissingProxyFence, // the async proxy touches what the generic one wrote, without fence.proxy.async between
  ByteCount,         // an mbarrier's bytes that never came, or that nobody expected
  Unfinished,        // a block ended while an asynchronous operation used its shared memory
  LiveMbarrier,      // an mbarrier's 64 bits used as data, or initialised again, before mbarrier.inval
  NonCoherent,       // ld.global.nc of what the kernel itself wrote
  InFlight,          // memory or registers of an asynchronous operation touched before it is over
};
const char* name_of(Fault fault);

// The access that a race is with.
struct OtherAccess {
  std::string what; // "write by st.shared.u32"
  int ptx_line = 0;
  std::string source;
  std::array<std::uint32_t, 3> block{}, thread{};
};

// One thing that is wrong, at one instruction, told for the first thread that did it.
struct Finding {
  Fault fault;
  std::string message; // one line, with everything below in it
  std::string kernel;
  int ptx_line = 0;
  std::string source; // "file:line", if .loc said
  std::array<std::uint32_t, 3> block{}, thread{};
  std::uint64_t times = 1;               // lanes
  std::optional<OtherAccess> other = {}; // of a race
};

// How often an instruction ran.
struct Tally {
  std::uint64_t warps = 0, lanes = 0;
};

struct Report {
  std::string kernel;
  std::vector<Finding> findings;
  std::uint64_t left_out = 0; // findings beyond Options::most_reports
  bool finished = true;       // all threads ran to their end
  std::string printed;        // by printf in the kernel
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::array<std::uint64_t, instruction_classes> lanes_by_class{};

  bool ok() const { return findings.empty() && finished; }
  std::string text() const; // for people, a line for each finding
  std::string json() const;
};

} // namespace kiln::emulator
