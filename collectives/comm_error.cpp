// Words the errors of collectives.
#include <kiln/collectives/comm_error.h>

#include <utility>

namespace kiln::collectives {

std::string CallName::text() const {
  return collective + " #" + std::to_string(sequence) + (tag.empty() ? "" : " [" + tag + "]");
}

CommError::CommError(const CallName& call, int failed_rank, Nanoseconds elapsed, const std::string& what,
                     std::string last_calls)
    : Error(call.text() + ": " + what + " (after " + std::to_string(elapsed / 1000) + " us)"), call_(call),
      failed_rank_(failed_rank), elapsed_(elapsed), last_calls_(std::move(last_calls)) {}

} // namespace kiln::collectives
