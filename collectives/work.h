// Defines Work, a collective that has begun.
//
//   Work gathering = comm.async_all_gather(stream, mine, all);
//   ...                                  // computes something else
//   gathering.wait();                    // now `all` is complete
//
// Wait before the communicator or a buffer of the collective is destroyed. A Work that is destroyed without a
// wait waits in its destructor, and what fails there fails again in the next call of the communicator.
// Movable; not thread-safe.
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
  virtual void wait(Nanoseconds deadline) = 0; // from now on; 0: that of the call
};

class [[nodiscard]] Work {
public:
  Work() = default; // a collective that is complete
  explicit Work(std::unique_ptr<PendingCall> call);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Returns whether the collective is complete on this rank, or has failed.
  bool test();
  // Returns when the collective is complete on this rank: its results are in memory, and its inputs may be
  // overwritten. Throws CommError if another rank does not do its part, or after the deadline of the call.
  void wait();
  // Waits with another deadline, in nanoseconds from now.
  void wait(Nanoseconds deadline);

private:
  std::unique_ptr<PendingCall> call_;
};

} // namespace kiln::collectives
KILN_API_END
