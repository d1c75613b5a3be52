// Implements the waits for collectives.
#include <kiln/collectives/work.h>

#include <kiln/dsl/error.h>

#include <exception>
#include <utility>

namespace kiln::collectives {

Work::Work(std::unique_ptr<PendingCall> call)
    : call_(std::move(call)), exceptions_(std::uncaught_exceptions()) {}
Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
  Work old(std::move(*this)); // waits
  call_ = std::move(other.call_);
  exceptions_ = other.exceptions_;
  return *this;
}

Work::~Work() {
  if (!call_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    call_->abandon();
    return;
  }
  try {
    wait();
  } catch (const std::exception&) { // the communicator has failed, and its next call says so
  }
}

bool Work::test() { return !call_ || call_->done(); }

void Work::wait() { wait(0); }

void Work::wait(Nanoseconds deadline) {
  if (deadline < 0)
    throw UserError("Work::wait: the deadline is negative; pass nanoseconds, or 0 for that of the call");
  if (!call_) return;
  const std::unique_ptr<PendingCall> call = std::move(call_); // a failed one is not waited for again
  call->wait(deadline);
}

} // namespace kiln::collectives
