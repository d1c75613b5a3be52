// Lets objects that own threads reset themselves in a forked child, where those threads do not exist, and lets
// forks wait for work that a child could not continue. Internal.
#pragma once

#include <cstdint>

namespace kiln {

// The number of forks between the process that loaded Kiln and this one.
std::uint32_t fork_generation();

// While an object is registered, reset_in_child runs in the child of every fork, before fork returns there.
// The child has no other thread, and locks may be held by threads that do not exist any more, so
// reset_in_child may only overwrite plain data.
class ForkAware {
public:
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;
  virtual void reset_in_child() noexcept = 0;

protected:
  ForkAware();
  ~ForkAware();

private:
  friend struct ForkRegistry;
  ForkAware* previous_ = nullptr;
  ForkAware* next_ = nullptr;
};

// While an object exists, forks by other threads wait: for work such as compiling, which holds locks that the
// child would find held for ever. Objects of one thread may be nested. A fork by the thread of the object does
// not wait. A fork waits for at most `longest_wait_for_work` seconds, because the work may itself be waiting for
// the thread that forks; new work begins only after a fork that waits.
class HoldsForks {
public:
  HoldsForks();
  ~HoldsForks();
  HoldsForks(const HoldsForks&) = delete;
  HoldsForks& operator=(const HoldsForks&) = delete;
};
inline constexpr int longest_wait_for_work = 300;

} // namespace kiln
