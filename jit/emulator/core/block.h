// Defines a block with its warps, shared memory and barriers, and the launch that executes blocks.
#pragma once

#include "async_operations.h"
#include "memory.h"
#include "options.h"
#include "probe.h"
#include "report.h"
#include "warp.h"
#include "warpgroup.h"

#include <map>
#include <random>
#include <tuple>

namespace kiln::emulator {

// One of the 16 barriers of a block. Without a number of threads it opens when all threads that have not
// exited have arrived. With a number it counts whole warps, 32 threads each: a warp counts when it executes
// an .aligned instruction, or when all its live lanes have executed one that is not. Lanes that exited before
// count with the rest of their warp, if the warp has live lanes.
struct BarrierState {
  std::uint32_t arrived = 0;  // threads
  std::uint32_t expected = 0; // threads; 0: all of the block
  std::map<int, Mask> coming; // the lanes that arrived, of warps of which some live lanes have not
  std::uint32_t red_count = 0, red_true = 0;
  int line = 0;
};

inline constexpr std::uint64_t reserved_shared_bytes = 1024;

class Block {
public:
  Block(Execution& execution, std::array<std::uint32_t, 3> index, std::uint32_t rank);
  Execution& execution;
  std::array<std::uint32_t, 3> index;
  std::uint32_t rank; // within its cluster
  std::vector<Block*> cluster;
  Region shared;
  // Offset of the shared memory that is reserved for the system, if there is any.
  std::uint64_t reserved_at = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  BarrierState barriers[16];
  std::uint32_t cluster_arrived = 0, cluster_phase = 0; // the cluster's barrier; used in its first block
  AsyncOperations async_operations{*this};
  // Tensor maps acquired by fence.proxy.tensormap, with their versions.
  std::map<std::uint64_t, std::uint64_t> acquired_maps;
  std::uint64_t free_registers = 0; // released by setmaxnreg.dec
  Agreement& multiplications(int warpgroup) { return multiplications_[warpgroup]; }
  Agreement& register_changes(int warpgroup) { return register_changes_[warpgroup]; }

  std::uint32_t threads() const;
  std::uint32_t alive_threads() const;
  bool done() const;
  // The mbarriers, with the instructions that initialised them.
  std::map<std::uint8_t*, std::pair<Warp*, const Instruction*>> mbarriers;
  void check_mbarriers(); // called at the end of the block
  void make_mbarrier(Region& shared, std::uint8_t* host, Warp& by, const Instruction& i);
  void drop_mbarrier(Region& shared, std::uint8_t* host);
  // "is the mbarrier that line 12 made", for the first mbarrier in a range of shared memory.
  std::string mbarrier_at(const Region& shared, std::uint64_t offset, std::uint64_t bytes) const;
  void open_cluster_barrier();
  void open_register_barrier();
  void open_wgmma_waits();
  void report_disagreements(); // instructions that some warps of a warpgroup did not execute
  void finish();               // all its threads have exited
  void open_barriers();        // opens those at which all threads have arrived

private:
  void report_missed(const std::map<int, Agreement>& agreements);
  std::map<int, Agreement> multiplications_, register_changes_;
};

// The execution of one launch.
class Execution {
public:
  Execution(Options& options, Allocations& allocations, const Program& program, const Launch& launch,
            std::vector<std::uint8_t> params, Probe* probe);
  ~Execution();
  Report run();

  Options& options;
  Allocations& allocations;
  const Program& program;
  const Launch& launch;
  const std::array<std::uint32_t, 3> cluster; // its size in blocks; 1 x 1 x 1 without clusters
  const bool clustered;                       // whether the kernel or the launch requests clusters
  std::vector<std::uint8_t> params;
  std::uint64_t workspace = 0; // address of the workspace of a cooperative launch
  Probe* probe;
  Report report;
  std::vector<Tally> tallies; // of each instruction of the program
  std::mt19937_64 random;
  std::uint64_t budget;
  bool stopped = false; // no further instruction is executed
  Origins origins;      // where bytes in memory that were copied unwritten come from
  std::uint64_t operations_issued = 0;
  // Tensor maps in global memory that the kernel changed, with the number of changes.
  std::map<std::uint64_t, std::uint64_t> made_maps;
  std::uint64_t observations = 0;   // number of accesses that can observe other threads
  std::uint64_t events = 0;         // number of changes that others can observe: stores, arrivals, exits
  std::uint64_t lasting_events = 0; // those of global memory, exits, and asynchronous operations

  // Adds a finding to the report, or increments the count of one with the same fault at the same place.
  void add_finding(Fault fault, const Warp& warp, const Instruction& i, int lane, const std::string& what,
                   std::uint64_t times = 1, std::optional<OtherAccess> other = {});
  bool beyond_budget() const { return report.warp_instructions + starts_ > budget; }
  void out_of_budget(const Warp& warp, const Instruction& i, int lane); // reports it and ends the launch
  std::string place(const Instruction& i) const;                        // "k.ptx:12 (add.cu:7)"
  std::string source(const Instruction& i) const;
  std::string opcode(const Instruction& i) const; // includes modifiers

private:
  struct Groups;
  class Workers;
  void run_group(const Groups& groups, std::uint64_t first);
  void count();
  void run_blocks(std::vector<std::unique_ptr<Block>>& blocks);
  void advance_async_operations(std::vector<std::unique_ptr<Block>>& blocks, Warp& ran, std::size_t ready,
                                std::uint64_t draw);
  bool all_wait(const std::vector<std::unique_ptr<Block>>& blocks, std::size_t ready,
                std::uint64_t instructions);
  bool repeats(const std::vector<Block*>& cluster);
  void report_deadlock(std::vector<std::unique_ptr<Block>>& blocks);
  std::uint64_t start_of_block() const;
  void count_repeated(const Warp& warp, const Instruction& i, int lane);
  bool too_many_blocks(std::uint64_t blocks);
  std::string waiting_blocks() const; // "; 7 blocks have not started..."

  std::uint64_t starts_ = 0;                     // the cost of started blocks, in instructions of the budget
  std::uint64_t repeated_findings_ = 0;          // findings at places reported before
  std::uint64_t not_started_ = 0, resident_ = 1; // blocks

  std::uint64_t last_events_ = 0, instructions_without_event_ = 0, check_factor_ = 1;
  std::uint64_t yields_in_a_row_ = 0, slices_since_landing_ = 0; // in time slices
  // Findings by instruction, fault and line of the other access.
  std::map<std::tuple<const Instruction*, Fault, int>, std::size_t> known_findings_;
  std::unique_ptr<Probe> checker_, both_;
};

} // namespace kiln::emulator
