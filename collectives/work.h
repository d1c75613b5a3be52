// Defines Work, a collective that has begun.
//
//   Work gathering = comm.async_all_gather(stream, mine, all);
//   ...                                  // computes something else
//   gathering.wait();                    // now `all` is complete
//
// Wait before the communicator or a buffer of the collective is destroyed. The destructor of a Work, and an
// assignment to it, block until the collective ends, and swallow its error, which the next call on the
// communicator throws again. If the rank throws an exception meanwhile, the destructor ends the communicators
// instead, as abort does. Works may be waited for in any order. Movable; not thread-safe.
#pragma once

#include <kiln/collectives/timeline.h>
#include <kiln/dsl/api.h>

#include <memory>

KILN_API_BEGIN
namespace kiln::collectives {

// What an engine gives a Work.
class PendingCall {
public:
  virtual ~PendingCall() = default;
  virtual bool done() = 0;
  virtual void abandon() noexcept = 0;         // ends the communicators: this rank will not wait
  virtual void wait(Nanoseconds deadline) = 0; // from now on; 0: that of the call
};

class [[nodiscard]] Work {
public:
  Work() = default; // a collective that is complete
  explicit Work(std::unique_ptr<PendingCall> call);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Returns whether the collective is complete on this rank, or has failed. Does not block; wait throws the
  // error. On the virtual clock, a call takes 1 us, or a hundredth of the time in which the rank has done
  // nothing but call it, if that is more.
  bool test();
  // Returns when the collective is complete on this rank: its results are in memory, and its inputs may be
  // overwritten. Throws CommError if another rank does not do its part, or after the deadline of the call.
  void wait();
  // Waits with another deadline: nanoseconds for each wait for another rank; 0: that of the call. A missed
  // deadline is final: it ends the communicators of all ranks. To poll, use test().
  void wait(Nanoseconds deadline);

private:
  std::unique_ptr<PendingCall> call_;
  int exceptions_ = 0; // in progress when the Work was made
};

} // namespace kiln::collectives
KILN_API_END
