// Survival of fork(): objects that own threads learn that they are in a child, where those are gone.
// Not for users.
#pragma once

#include <cstdint>

namespace kiln {

// Counts the forks between this process and the one that loaded Kiln.
std::uint32_t fork_generation();

// While registered, reset_in_child runs in the child of every fork, before fork returns there. No other
// thread exists then, and locks may be held by threads that do not: it may only overwrite plain state.
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
