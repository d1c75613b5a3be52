// Defines Group, the engine for ranks that are threads of one process: it executes their calls together.
//
// Users do not need it: see run_ranks (ranks.h) and Communicator. Each rank has a thread. What a rank sends
// is copied to the receiver's memory when the link has transferred it, by the thread that runs the timeline's
// events; without a link, a small piece is copied at once, by the thread that finds it ready. A piece is sent
// once both ranks have begun the call, so that nothing is written to the memory of a rank that is not there.
//
// If a rank fails, all calls of all its communicators fail, now and later: they are marked before any rank is
// woken, and no copy begins afterwards.
#pragma once

#include <kiln/collectives/call.h>
#include <kiln/collectives/comm_error.h>
#include <kiln/collectives/schedule/compute_model.h>
#include <kiln/collectives/threads/timeline.h>
#include <kiln/collectives/trace.h>
#include <kiln/jit/runtime/device.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace kiln::collectives {

// The ranks of a communicator: their numbers in the group, in the order of their ranks there.
struct Members {
  std::uint64_t id = 0;
  std::vector<int> ranks;
};

class Group {
public:
  struct Options {
    int ranks = 1;
    ClockKind clock = ClockKind::wall;
    LinkModel link = {};
    ComputeModel machine = {};             // what engine() reports; calls bring the costs of their steps
    Nanoseconds deadline = 60'000'000'000; // of each wait for another rank
    std::vector<Device> devices = {};      // of each rank; empty: the CPU
    Nanoseconds active_wait = 0;           // how long a rank polls before it sleeps, without a link
    int cpus = 1;                          // that the ranks have together
    Trace* trace = nullptr;                // where steps are recorded, if anywhere
  };
  explicit Group(Options options);
  ~Group();
  Group(const Group&) = delete;

  int size() const { return options_.ranks; }
  Timeline& timeline() { return timeline_; }
  const Options& options() const { return options_; }
  Device device(int rank) const;
  std::shared_ptr<const Members> everyone() const { return everyone_; }

  // Calls body(rank) on a thread for each rank, and returns when all have ended. Throws the exception of the
  // rank that failed first.
  void run(const std::function<void(int rank)>& body);

  class Call;
  // Begins a call of rank `rank` of the members. All of them pass the same schedule.
  std::shared_ptr<Call> begin(const std::shared_ptr<const Members>& members, int rank, CollectiveCall call);
  // Computes this rank's steps, and returns when all that it sends and receives has arrived. Throws CommError
  // if another rank does not do its part; what was not received by then is not written. A deadline of 0 is
  // that of the call.
  void finish(Call& call, int rank, Nanoseconds deadline = 0);
  // Whether finish would return or throw at once.
  bool is_done(Call& call, int rank);
  // Ends the group because this rank cannot finish the call.
  void abandon(Call& call, int rank) noexcept;

  // Memory of a rank into which others put data, and where it counts what they have put.
  struct Window {
    void* memory = nullptr;
    std::uint64_t* signal = nullptr; // of the puts of one rank
  };
  // Puts are possible from the one on, and have ended when the other returns.
  void open_window(const void* memory);
  void close_window(int rank, const void* memory);
  // A put into a window of rank `to`; its count is increased when the data has arrived.
  void put(const CallName& name, int from, int to, const Window& window, std::int64_t offset,
           const void* source, std::int64_t bytes);
  // Waits until the count is at least `value`.
  void wait_signal(const CallName& name, int rank, int from, const std::uint64_t* signal, std::uint64_t value,
                   Nanoseconds deadline);

  // Makes all calls of all ranks end with an error, now and later.
  void abort(int failed_rank, const std::string& why);
  // The last calls of every rank, a line for each.
  std::string last_calls();

private:
  struct Failure {
    int failed_rank;
    std::string why;
  };
  struct Recorded { // a call in the record of a rank
    CallName name;
    Nanoseconds began = 0, ended = -1;
    bool failed = false;
  };

  void join(Call& call, int rank, CollectiveCall&& part);
  void start_if_ready(Call& call, int step);
  void send(Call& call, int step);
  void reduce_in_background(Call& call, int step);
  void start_first(Call& call, int rank);
  bool is_small(const Call& call, const Step& put) const;
  // They return whether a rank may now have what it waits for.
  bool end(Call& call, int step);
  bool end_one(Call& call, int step);
  bool copy_small_pieces();
  void compute_all(Call& call, int rank, Nanoseconds deadline);
  // Counts that the memory of the ranks of a step is used from now on, or no longer. Returns false if a
  // failed rank takes part.
  bool begin_use(Call& call, int step);
  void end_use(const Call& call, int step);
  // Waits for a condition. Failures of other ranks are a CommError.
  void wait(Call& call, int rank, Nanoseconds deadline, const std::function<bool()>& ready);
  // A failure that ends a wait of a rank: of the group, or another rank that has ended without this call.
  std::optional<Failure> failure_of(const Call& call, int rank) const;
  // The ranks whose waits have been looked at, each with the reason that was found, if the search has ended.
  using Seen = std::map<int, std::optional<Failure>>;
  // Why a rank still waits at its deadline.
  Failure delay_of(const Call& call, int rank, Seen& seen) const;
  // The reason that a rank does not do what another one waits for: it waits itself, in some call, or else
  // `otherwise`.
  Failure blame(int number, Failure otherwise, Seen& seen) const;
  // After a failure: waits until nothing is copied to or from the memory of a rank.
  void leave(Call& call, int rank);
  void abort_locked(int failed_rank, const std::string& why);
  void fail(int rank, const std::string& what); // aborts because the rank has thrown an exception
  void record_begin(int rank, const CallName& name);
  void record_end(int rank, const CallName& name, bool failed);
  std::string last_calls_locked() const;
  void trace(const Call& call, int step, Nanoseconds begin, Nanoseconds end);

  struct Polls { // of Work::test, one after the other and with nothing between
    Nanoseconds began = 0, until = 0;
  };

  const Options options_;
  std::shared_ptr<const Members> everyone_;
  std::vector<Polls> polls_; // of each rank, whose thread uses it
  // The lock of the timeline guards what follows.
  Ports ports_;
  std::map<std::pair<std::uint64_t, int>, std::uint64_t>
      calls_of_; // how many a rank of some members has begun
  struct Waiting {
    const Call* call = nullptr;
    int rank = 0;
  };
  std::vector<Waiting> waiting_;           // of each rank, the call in which it waits
  std::vector<bool> gone_;                 // ranks whose bodies have ended
  int ended_ranks_ = 0;                    // how many of them there are
  std::vector<int> copies_;                // to and from the memory of each rank, now
  std::vector<Nanoseconds> reduces_until_; // by rank: until when its engine reduces in the background
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<Call>> calls_; // by members and sequence
  std::vector<std::deque<Recorded>> recorded_;                                     // by rank
  std::vector<std::pair<Call*, int>> small_puts_; // that are ready; empty when the lock is released
  std::set<const void*> windows_;                 // that are open
  bool waits_for_copies_ = false;                 // whether ranks may wait until nothing uses their memory
  std::optional<Failure> aborted_;
  Timeline timeline_; // the last member: it is destroyed first, and its thread uses the others until then
};

} // namespace kiln::collectives
