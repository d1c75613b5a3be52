// Declares run_ranks, which runs ranks as threads of this process.
//
//   run_ranks({.ranks = 2}, [&](Communicator& comm) { ... });                   // copies between threads
//   run_ranks({.ranks = 8, .clock = ClockKind::virtual_time,                    // an emulated machine
//              .link = {.bytes_per_second = 450e9, .latency = 2000},
//              .machine = {.flops_per_second = 800e12, .bytes_per_second = 3e12}}, body);
//
// Each rank has its own part of the CPUs that the process may use, to which its threads are bound, and its
// kernels run on a thread pool of that size. If there are more ranks than CPUs, each has one thread, which is
// not bound.
//
// With a link, transfers take the time that it says (link.h). On the virtual clock, commands really run, but
// last what cost tables say, and the result of Communicator::now() does not depend on the machine.
//
// If the environment variable KILN_RANKS_TRACE names a file, each run_ranks without a trace of its own writes
// one (trace.h): the first one to this file, and later ones to files with a number, such as trace-2.json.
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/collectives/trace.h>
#include <kiln/dsl/api.h>

#include <functional>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct RanksOptions {
  int ranks = 1; // 1 to 64
  ClockKind clock = ClockKind::wall;
  LinkModel link = {};                   // emulated link (link.h); default: the speed of memory copies
  ComputeModel machine = {};             // durations of computations, on the virtual clock only
  Nanoseconds deadline = 60'000'000'000; // of each wait for another rank: 60 s
  std::int64_t workspace_bytes =
      64 << 20;                     // limit of temporary memory of a reduction on a rank; at least 4096
  std::vector<Device> devices = {}; // one for each rank; empty: all on the CPU
  Trace* trace = nullptr;           // not owned; null: that of KILN_RANKS_TRACE, if any
};

// Calls body(communicator) on a thread for each rank, and returns when all have returned. If ranks throw, the
// exception of the earliest failure is thrown again; CommErrors count as later than others, since they are
// their consequences. UserError for invalid options.
void run_ranks(const RanksOptions& options, const std::function<void(Communicator& comm)>& body);

} // namespace kiln::collectives
KILN_API_END
