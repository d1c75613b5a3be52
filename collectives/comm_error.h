// Defines CommError, which the calls of all surviving ranks throw when a collective cannot complete.
#pragma once

#include <kiln/collectives/timeline.h>
#include <kiln/dsl/error.h>

#include <cstdint>
#include <string>

namespace kiln::collectives {

// What a rank was doing: the collective, its tag, and its number among the calls of the communicator.
struct CallName {
  std::string collective; // "all_gather"
  std::string tag;        // of the caller, such as "mlp.up"
  std::uint64_t sequence = 0;
  std::string text() const; // all_gather #41 [mlp.up]
};

class CommError : public Error {
public:
  CommError(const CallName& call, int guilty_rank, Nanoseconds elapsed, const std::string& what);

  const CallName& call() const { return call_; }
  int guilty_rank() const { return guilty_rank_; } // -1 if no single rank is
  Nanoseconds elapsed() const { return elapsed_; } // since this rank began the call

private:
  CallName call_;
  int guilty_rank_;
  Nanoseconds elapsed_;
};

} // namespace kiln::collectives
