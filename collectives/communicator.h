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
// All ranks of a communicator make the same calls in the same order, with the same dtypes, extents, options
// and tags; what differs is an error on all ranks, which names both calls. Tensors are contiguous, of rank 1
// or more, and on the device of the rank. Collectives take them where they are, without copies. `rows` are
// the indices of the first axis. Unless an option says otherwise, rank r of P has the rows from rows * r / P
// to rows * (r + 1) / P, so that ranks may have different numbers of rows, or none.
//
// A collective follows what was launched on the stream before, and its result is there when the call returns,
// or when the wait for its Work does. (The engine for ranks that are threads waits for the stream on the
// host.) A buffer must not be used while an asynchronous collective uses it.
//
// Reductions have the same bits on all ranks, in every run, and by every algorithm: the parts are exchanged,
// and the owner of an element adds them in the order of ranks, in f32 (f64 for f64; integers wrap around),
// and rounds once.
//
// Errors: UserError for wrong arguments, before anything is sent. CommError (comm_error.h) if another rank
// fails, ends, makes another call, or does not come before the deadline; it names the call and the guilty
// rank. Then every later call on the communicators of this engine fails too, buffers that were not yet
// written stay as they are, and the program can go on with a new engine.
//
// A communicator belongs to the thread of its rank; only abort may be called by others.
#pragma once

#include <kiln/collectives/call.h>
#include <kiln/collectives/comm_error.h>
#include <kiln/collectives/compute_model.h>
#include <kiln/collectives/cost_model.h>
#include <kiln/collectives/reduction.h>
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

class SymmetricMemory;

struct CollectiveOptions {
  Reduction reduction = Reduction::sum;
  std::string tag = {};                // names the call in errors and traces: "mlp.up"
  std::vector<std::int64_t> rows = {}; // of each rank; empty: divided evenly, as described above
  Nanoseconds deadline = 0;            // of each wait for another rank; 0: that of the communicator
};

// What an engine is.
struct EngineInfo {
  const char* name = ""; // "threads"
  bool virtual_clock = false;
  bool peers_in_same_memory = false; // pointers of one rank are valid in another
  LinkModel link = {};               // of transfers between ranks, as far as it is known
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
  virtual Nanoseconds now() const = 0; // of the engine's clock

  using At = ops::detail::StreamAt; // a Stream, with the place of the call for errors
  using Input = ops::Input;
  using Output = ops::Output;

  // all_gather: every rank gets the rows of all ranks. x [own rows, ...], y [rows, ...]. x may be its place
  // in y.
  void all_gather(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // reduce_scatter: every rank gets its rows of the reduction. x [rows, ...], y [own rows, ...].
  void reduce_scatter(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // all_reduce: every rank gets the reduction. x and y have the same extents, and may be the same tensor.
  void all_reduce(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // broadcast: every rank gets what the root has. y is read by the root, and written by the others.
  void broadcast(At stream, const Output& y, int root, const CollectiveOptions& options = {});
  // reduce: the root gets the reduction. Other ranks may pass {} for y.
  void reduce(At stream, const Input& x, const Output& y, int root, const CollectiveOptions& options = {});
  // all_to_all: rank r sends its rows of x that belong to rank q to q, whose y has them at the place of r.
  // x and y have the same extents, and both are divided evenly among the ranks.
  void all_to_all(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  // The ragged form: x has send_rows[q] rows for rank q, one after the other, and y gets receive_rows[q] rows
  // from it. What a rank sends and what the receiver expects must agree.
  void all_to_all(At stream, const Input& x, const std::vector<std::int64_t>& send_rows, const Output& y,
                  const std::vector<std::int64_t>& receive_rows, const CollectiveOptions& options = {});
  // send and recv: from one rank to another, which calls recv with a tensor of the same size and dtype. Sends
  // from one rank to another arrive in their order. A send returns when its data has arrived.
  void send(At stream, const Input& x, int to, const CollectiveOptions& options = {});
  void recv(At stream, const Output& y, int from, const CollectiveOptions& options = {});
  // Returns when all ranks have called it.
  void barrier(const CollectiveOptions& options = {});

  // Asynchronous forms of the calls above, whose results are there when the wait for the Work returns.
  Work async_all_gather(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  Work async_reduce_scatter(At stream, const Input& x, const Output& y,
                            const CollectiveOptions& options = {});
  Work async_all_reduce(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  Work async_broadcast(At stream, const Output& y, int root, const CollectiveOptions& options = {});
  Work async_all_to_all(At stream, const Input& x, const Output& y, const CollectiveOptions& options = {});
  Work async_send(At stream, const Input& x, int to, const CollectiveOptions& options = {});
  Work async_recv(At stream, const Output& y, int from, const CollectiveOptions& options = {});

  // A communicator of the ranks that pass the same color, in the order of their keys, and of their ranks here
  // where keys are equal. All ranks must call it.
  std::unique_ptr<Communicator> split(int color, int key = 0);

  // Memory of `bytes` bytes on every rank, of which each rank knows all addresses (symmetric_memory.h). All
  // ranks must call it.
  std::unique_ptr<SymmetricMemory> symmetric_memory(std::int64_t bytes);

  // Throws CommError with the ranks whose contents differ from those of rank 0, if there are any. For weights
  // and states that must be equal on all ranks.
  void check_replicas(At stream, const Input& x, const std::string& tag = {});

  // The time that a collective of so many bytes takes by the alpha-beta model, if the engine knows its link:
  // the bytes of the whole tensor, which is y of all_gather and x of reduce_scatter.
  Nanoseconds estimate(CollectiveKind kind, std::int64_t bytes, Algorithm algorithm = Algorithm::best) const;

  // Ends all calls of all ranks with a CommError that gives this reason and names this rank. Thread-safe.
  virtual void abort(const std::string& why) noexcept = 0;

  // Executes a schedule of one's own. The call lasts until the Work's wait returns, and this rank computes
  // its steps in that wait, unless the call is in the background.
  virtual Work start(CollectiveCall call) = 0;
  void execute(CollectiveCall call) { start(std::move(call)).wait(); }

  // The temporary memory that a reduction may take on each rank, at most. Larger ones are done in parts, one
  // after the other.
  std::int64_t workspace_limit() const { return workspace_limit_; }
  // The temporary memory that a reduction of `bytes` bytes takes on each rank.
  std::int64_t workspace_bytes(CollectiveKind kind, std::int64_t bytes) const;

protected:
  Communicator(int rank, int size, Device device, std::int64_t workspace_limit)
      : rank_(rank), size_(size), device_(device), workspace_limit_(workspace_limit) {}

  // A communicator of some ranks of this one, in this order, which includes the calling rank. All of them
  // call it with the same id.
  virtual std::unique_ptr<Communicator> subset(const std::vector<int>& ranks, std::uint64_t id) = 0;
  friend class SymmetricMemory;
  // A transfer to the memory of another rank, and a wait for one (see symmetric_memory.h).
  virtual void put(const CallName& name, int to, void* target, const void* source, std::int64_t bytes,
                   std::uint64_t* signal) = 0;
  virtual void wait_signal(const CallName& name, int from, const std::uint64_t* signal, std::uint64_t value,
                           Nanoseconds deadline) = 0;

private:
  Communicator& pair(int from, int to);

  const int rank_, size_;
  const Device device_;
  const std::int64_t workspace_limit_;
  std::uint64_t splits_ = 0;
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> pairs_; // of sends, by sender and receiver
};

} // namespace kiln::collectives
KILN_API_END
