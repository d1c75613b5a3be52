// Defines CommError, which the calls of all surviving ranks throw when a collective cannot complete.
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>
#include <kiln/dsl/error.h>

#include <cstdint>
#include <string>

KILN_API_BEGIN
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
  // `last_calls` is the record of a hang.
  CommError(const CallName& call, int failed_rank, Nanoseconds elapsed, const std::string& what,
            std::string last_calls = {});

  const CallName& call() const { return call_; }
  int failed_rank() const { return failed_rank_; } // the rank at fault, in run_ranks; -1: unknown, or several
  Nanoseconds elapsed() const { return elapsed_; } // since this rank began the call
  // If a deadline has expired: the last calls of each rank, a line for each rank. Otherwise empty.
  const std::string& last_calls() const { return last_calls_; }

private:
  CallName call_;
  int failed_rank_;
  Nanoseconds elapsed_;
  std::string last_calls_;
};

} // namespace kiln::collectives
KILN_API_END
