// Lets objects that own threads reset themselves in a forked child, where those threads do not exist.
// Internal.
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

} // namespace kiln
