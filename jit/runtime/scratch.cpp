// Keeps one growing block a thread.
#include <kiln/jit/runtime/scratch.h>

#include <kiln/jit/runtime/buffer.h>

namespace kiln {

void* thread_scratch(std::int64_t bytes) noexcept {
  thread_local Buffer scratch;
  if (bytes <= scratch.size()) return scratch.data();
  try {
    scratch = Buffer(); // the old block may serve the new request of another thread
    scratch = Buffer(Device::cpu(), bytes);
  } catch (...) {
    return nullptr;
  }
  return scratch.data();
}

} // namespace kiln
