// Declares run_ranks, which runs a function on several ranks, each a thread of this process.
//
//   run_ranks({.ranks = 2}, [&](Communicator& comm) { ... });                   // copies between threads
//   run_ranks({.ranks = 8, .clock = ClockKind::virtual_time,                    // an emulated machine
//              .link = {.bytes_per_second = 450e9, .latency = 2000},
//              .machine = {.flops_per_second = 800e12, .bytes_per_second = 3e12}}, body);
//
// Each rank has its own share of the CPUs that the process may use, to which its threads are bound, and its
// kernels run on a thread pool of that size. If there are more ranks than CPUs, each has one thread, which is
// not bound.
//
// With a link, transfers take as long as its model says (link.h). On the virtual clock, computations really
// run, but Communicator::now() advances by what `machine` (compute_model.h) and `link` say, and so does not
// depend on the computer that runs them.
//
// If the environment variable KILN_RANKS_TRACE names a file, each call of run_ranks without a trace of its
// own writes one (trace.h): the first one to this file, and later ones to files with a number, such as
// trace-2.json.
#pragma once

#include <kiln/collectives/communicator.h>
#include <kiln/collectives/threads/timeline.h>
#include <kiln/collectives/trace.h>
#include <kiln/dsl/api.h>

#include <functional>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct RanksOptions {
  int ranks = 1; // 1 to 64
  ClockKind clock = ClockKind::wall;
  // The emulated link. Default: transfers are copies at full speed, and take no time on the virtual clock.
  LinkModel link = {};
  ComputeModel machine = {};               // for the virtual clock only; default: computations take no time
  Nanoseconds deadline = 60'000'000'000;   // of each wait for another rank: 60 s
  std::int64_t workspace_bytes = 64 << 20; // Communicator::workspace_limit(); at least 4096
  // One for each rank; empty: all on the CPU. Ranks that have the same device share it. For an emulated GPU
  // of its own, give each rank another ordinal: Device::emulated("sm_90a", {.ordinal = rank}).
  std::vector<Device> devices = {};
  Trace* trace = nullptr; // not owned; null: that of KILN_RANKS_TRACE, if any
};

// Calls body(communicator) on a new thread for each rank, and returns when all of them have ended. If ranks
// throw, it rethrows the earliest exception that is not a CommError; if all are CommErrors, which are usually
// consequences of another rank's exception, the earliest of these. UserError for invalid options.
void run_ranks(const RanksOptions& options, const std::function<void(Communicator& comm)>& body);

} // namespace kiln::collectives
KILN_API_END
