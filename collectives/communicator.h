// Declares Communicator, with which ranks exchange tensors.
//
//   run_ranks({.ranks = 4}, [&](Communicator& comm) {               // ranks.h: ranks that are threads
//     Stream stream(comm.device());
//     comm.all_gather(stream, mine, all);                          // [rows / 4, n] of each rank -> [rows, n]
//     comm.all_reduce(stream, gradient, gradient, {.reduction = Reduction::mean, .tag = "layer.7"});
//     Work sum = comm.async_reduce_scatter(stream, partial, shard); // work.h
//     ...                                                          // computes something else
//     sum.wait();
//   });
//
// All ranks of a communicator must make the same collective calls in the same order, with the same dtypes,
// numbers and sizes of rows, options and tags. A mismatch is a CommError on every rank, which names both
// calls. send, recv, SymmetricMemory::put and SymmetricMemory::wait involve two ranks only, and are not part
// of this order. Tensors are contiguous, have at least one axis, and are on the rank's device. They are used
// in place, without staging copies. A row is a slice along the first axis. Unless options.rows says
// otherwise, rank r of P owns the rows from rows * r / P to rows * (r + 1) / P (end excluded), so ranks may
// own different numbers of rows, or none.
//
// A collective first waits on the host until the work that is queued on the stream has completed. A blocking
// call returns when its result is in memory, so the stream need not be synchronized afterwards. An async_
// call returns once it has started, and its result is in memory after Work::wait; until then, do not write to
// its inputs, and do not read or write its output. A reduction that needs more memory than workspace_limit()
// is done in parts, and its async_ call blocks until all parts but the last are complete. Without an emulated
// link, the CPUs of the ranks copy the data: the transfers of an async_ call make progress only while ranks
// wait for something, or call Work::test.
//
// Reductions take float dtypes and i32 (no mean for i32). They give the same bits on all ranks, in every run,
// and by every algorithm: each element is reduced in the order of ranks, in f32 (f64 for f64; i32 wraps
// around), and rounded once. Only ReductionOrder::engine allows other bits.
//
// Errors: UserError for invalid arguments, before any data is sent. CommError (comm_error.h) if another rank
// fails, exits, makes a different call, or misses the deadline; it names the call and the rank at fault.
// After a CommError, every call on every communicator of this run_ranks fails, and nothing more is written to
// the memory of any rank; outputs may be partly written. To go on, return from run_ranks and call it again.
//
// Use a communicator only on the thread of its rank. Only abort may be called from any thread.
#pragma once

#include <kiln/collectives/call.h>
#include <kiln/collectives/comm_error.h>
#include <kiln/collectives/reduction.h>
#include <kiln/collectives/schedule/compute_model.h>
#include <kiln/collectives/schedule/cost_model.h>
#include <kiln/collectives/work.h>
#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/stream.h>
#include <kiln/ops/array.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

class Lanes;
class SymmetricMemory;

struct CollectiveOptions {
  Reduction reduction = Reduction::sum;
  ReductionOrder order = ReductionOrder::ranks;
  std::string tag = {}; // names the call in errors and traces: "mlp.up"
  // For all_gather and reduce_scatter: the number of rows that each rank owns; empty: divided evenly.
  std::vector<std::int64_t> rows = {};
  Nanoseconds deadline = 0; // of each wait for another rank; 0: RanksOptions::deadline
};

// The properties of the engine that moves the data.
struct EngineInfo {
  const char* name = ""; // "threads"
  bool virtual_clock = false;
  bool shared_address_space = false; // pointers of one rank are valid on another
  LinkModel link = {};               // of transfers between ranks; all 0 if the engine does not know it
  ComputeModel machine = {};         // how long computations last on the virtual clock
};

class Communicator {
public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; } // of this rank
  virtual EngineInfo engine() const = 0;
  virtual Nanoseconds now() const = 0; // the time of the engine's clock

  using At = ops::detail::StreamAt; // a Stream, with the place of the call for errors
  using Input = ops::Input;
  using Output = ops::Output;

  // all_gather: concatenates the rows of all ranks, in the order of ranks. x [own rows, ...], y [rows, ...],
  // of the same dtype. x may be this rank's slice of y; otherwise they must not overlap.
  void all_gather(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // reduce_scatter: reduces x over the ranks; each rank gets its own rows of the result. x [rows, ...],
  // y [own rows, ...], of the same dtype, which must not overlap.
  void reduce_scatter(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // all_reduce: every rank gets the reduction of x. x and y have the same extents and dtype; y may be x.
  void all_reduce(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // broadcast: copies y of rank `root` into y of all other ranks, which have the same extents and dtype.
  void broadcast(At stream, const Output& y, int root, const CollectiveOptions& options = {});
  // reduce: only rank `root` gets the reduction of x, in y, which may be x. Other ranks may pass {} for y.
  void reduce(At stream, const Input& x, const Output& y, int root, const CollectiveOptions& options = {});
  // all_to_all: x and y consist of as many equal blocks of rows as there are ranks. Block q of x goes to rank
  // q, and block r of y comes from rank r. x and y have the same extents and must not overlap.
  void all_to_all(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // all_to_all with uneven splits: x has send_rows[q] rows for each rank q in turn, and y gets
  // receive_rows[q] rows from each rank q in turn. Ranks first exchange these numbers; UserError on all ranks
  // if a rank does not send as many rows as the receiver expects.
  void all_to_all(At stream, const Input& x, const std::vector<std::int64_t>& send_rows, const Output& y,
                  const std::vector<std::int64_t>& receive_rows, const CollectiveOptions& options = {});
  // send and recv: one rank calls send, and the other one recv with a tensor of the same dtype, number and
  // size of rows. Messages from one rank to another arrive in the order in which they were sent. Both calls
  // block until the data has arrived, so two ranks that both send to each other first deadlock, and fail at
  // the deadline: use async_send in this case.
  void send(At stream, const Input& x, int to, const CollectiveOptions& options = {});
  void recv(At stream, const Output& y, int from, const CollectiveOptions& options = {});
  // barrier: returns when all ranks have called it. It does not wait for streams.
  void barrier(const CollectiveOptions& options = {});

  // Asynchronous forms of the calls above: results are in memory when Work::wait returns.
  Work async_all_gather(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  Work async_reduce_scatter(At stream, const Input& x, const Output& y,
                            const CollectiveOptions& options = {});
  Work async_all_reduce(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  Work async_broadcast(At stream, const Output& y, int root, const CollectiveOptions& options = {});
  Work async_reduce(At stream, const Input& x, const Output& y, int root,
                    const CollectiveOptions& options = {});
  Work async_all_to_all(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // It exchanges the numbers before it returns.
  Work async_all_to_all(At stream, const Input& x, const std::vector<std::int64_t>& send_rows,
                        const Output& y, const std::vector<std::int64_t>& receive_rows,
                        const CollectiveOptions& options = {});
  Work async_send(At stream, const Input& x, int to, const CollectiveOptions& options = {});
  Work async_recv(At stream, const Output& y, int from, const CollectiveOptions& options = {});

  // Makes one communicator for each color, as MPI_Comm_split does, and returns the one of this rank's color.
  // Its ranks are ordered by key, and then by their rank here. All ranks must call it. Blocks. The result
  // must not outlive the body of run_ranks.
  std::unique_ptr<Communicator> split(int color, int key = 0);

  // Allocates `bytes` bytes on the device of every rank and exchanges the addresses (symmetric_memory.h). All
  // ranks must call it, with the same number. Blocks. The contents are undefined. Destroy it before the
  // communicator.
  std::unique_ptr<SymmetricMemory> symmetric_memory(std::int64_t bytes);

  // Throws CommError on all ranks if the contents of x (contiguous, of any dtype) differ from those of rank
  // 0; the message lists the ranks that differ. Compares 64-bit hashes, for which it copies x to the host.
  // All ranks must call it. Blocks. Unlike after other CommErrors, the communicator can still be used. For
  // weights and optimizer states that must be equal on all ranks.
  void check_replicas(At stream, const Input& x, const std::string& tag = {});

  // Estimates how long a collective takes on the engine's link, by the alpha-beta model (cost_model.h).
  // `bytes` is the size of the whole tensor: of y for all_gather, and of x for reduce_scatter. Returns 0 if
  // the engine does not know its link.
  Nanoseconds estimate(CollectiveKind kind, std::int64_t bytes, Algorithm algorithm = Algorithm::best) const;

  // Makes all present and later calls of all ranks fail with a CommError that gives this reason and names
  // this rank. Thread-safe.
  virtual void abort(const std::string& why) noexcept = 0;

  // Starts a call with a schedule that the caller has built (call.h, schedule.h); `execute` also waits for
  // it. Unless call.in_background is set, this rank's steps are computed inside Work::wait.
  virtual Work start(CollectiveCall call) = 0;
  void execute(CollectiveCall call) { start(std::move(call)).wait(); }

  // The temporary memory, in bytes, that a reduction takes at most on each rank. A reduction that needs more
  // is done in parts, one after the other. The communicator keeps the memory for later reductions, and frees
  // what 128 of them in a row have not needed.
  std::int64_t workspace_limit() const { return workspace_limit_; }
  // The temporary memory, in bytes, that a reduction of a tensor of `bytes` bytes takes on each rank if its
  // rows are divided evenly; 0 for collectives that reduce nothing.
  std::int64_t workspace_bytes(CollectiveKind kind, std::int64_t bytes) const;

protected:
  Communicator(int rank, int size, Device device, std::int64_t workspace_limit);

  // Makes a communicator of some ranks of this one, in the given order. The calling rank is one of them. All
  // of them call it with the same id.
  virtual std::unique_ptr<Communicator> subset(const std::vector<int>& ranks, std::uint64_t id) = 0;
  friend class SymmetricMemory;
  // The number of a rank among all ranks of run_ranks.
  virtual int rank_in_run(int rank) const = 0;
  // The one-sided operations of SymmetricMemory. Other ranks may put data into `memory` between open_window
  // and close_window. put copies data into the window of rank `to`, and then increments the counter `signal`
  // there. wait_signal waits until the counter `signal` of this rank is at least `value`.
  virtual void open_window(const void* memory) = 0;
  virtual void close_window(const void* memory) noexcept = 0;
  virtual void put(const CallName& name, int to, void* window, std::uint64_t* signal, std::int64_t offset,
                   const void* source, std::int64_t bytes) = 0;
  virtual void wait_signal(const CallName& name, int from, const std::uint64_t* signal, std::uint64_t value,
                           Nanoseconds deadline) = 0;

private:
  bool prefers_one_shot(std::int64_t bytes) const;
  Communicator& pair(int from, int to);

  const int rank_, size_;
  const Device device_;
  const std::int64_t workspace_limit_;
  const std::unique_ptr<Lanes> lanes_; // of reductions
  std::uint64_t splits_ = 0;
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> pairs_; // of sends, by sender and receiver
};

} // namespace kiln::collectives
KILN_API_END
