// Keeps one block of scratch memory per thread, which only grows.
#include <kiln/jit/runtime/cpu/scratch.h>

#include <kiln/jit/base/thread_value.h>
#include <kiln/jit/runtime/buffer.h>

namespace kiln {

void* thread_scratch(std::int64_t bytes) noexcept {
  try {
    Buffer& scratch = thread_value<Buffer, struct Scratch>();
    if (bytes <= scratch.size()) return scratch.data();
    scratch = Buffer(); // frees the old block first, so that its memory can be reused
    scratch = Buffer(Device::cpu(), bytes);
    return scratch.data();
  } catch (...) {
    return nullptr;
  }
}

} // namespace kiln
