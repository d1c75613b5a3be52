// Defines Work, an asynchronous collective that has started.
//
//   Work gathering = comm.async_all_gather(stream, mine, all);
//   ...                                  // computes something else
//   gathering.wait();                    // now `all` is complete
//
// Wait before the communicator or a tensor of the collective is destroyed. The destructor of a Work, and an
// assignment to it, block until the collective ends. They ignore its error, but the next call on the
// communicator throws a CommError, too. If the destructor runs because of an exception, it does not wait, but
// makes all calls of all ranks fail, as Communicator::abort does. A rank may wait for several Works in any
// order. Movable; not thread-safe.
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>

#include <memory>

KILN_API_BEGIN
namespace kiln::collectives {

// The engine's part of a Work.
class PendingCall {
public:
  virtual ~PendingCall() = default;
  virtual bool done() = 0;
  virtual void abandon() noexcept = 0;         // makes all calls of all ranks fail: this rank will not wait
  virtual void wait(Nanoseconds deadline) = 0; // of each wait for another rank; 0: that of the call
};

class [[nodiscard]] Work {
public:
  Work() = default; // is complete
  explicit Work(std::unique_ptr<PendingCall> call);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Returns whether the collective is complete on this rank, or has failed; in this case, wait throws the
  // error. Does not block. On the virtual clock, a call takes 1 us, or a hundredth of the time in which the
  // rank has done nothing but call it, if that is more.
  bool test();
  // Blocks until the collective is complete on this rank: its results are in memory, and its inputs may be
  // overwritten. Throws CommError if another rank fails or does not make the call, or at the deadline of the
  // call. Later calls return at once.
  void wait();
  // Waits with another deadline: nanoseconds for each wait for another rank; 0: that of the call. A missed
  // deadline makes all calls of all ranks fail, so it is not a way to poll: use test().
  void wait(Nanoseconds deadline);

private:
  std::unique_ptr<PendingCall> call_;
  int exceptions_ = 0; // in progress when the Work was made
};

} // namespace kiln::collectives
KILN_API_END
