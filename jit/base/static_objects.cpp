// Keeps LLVM's static objects alive while the program ends.
//
// The destructors of a program's static objects may compile kernels, and LLVM's static objects would be
// destroyed before those that are older than the program's first kernel. Kiln itself never destroys its
// static objects. The shared library is linked with --wrap=__cxa_atexit, so that LLVM's registrations come
// here and are dropped.
#include <kiln/jit/base/static_objects.h>

#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker defines these names
extern "C" {
int __wrap___cxa_atexit(void (*)(void*), void*, void*) { return 0; }
[[gnu::weak]] int __real___cxa_atexit(void (*)(void*), void*, void*); // null if linked without --wrap
}
// NOLINTEND(bugprone-reserved-identifier)

namespace kiln {

void call_at_exit(void (*function)()) {
  if (!__real___cxa_atexit) return (void)std::atexit(function);
  __real___cxa_atexit([](void* f) { reinterpret_cast<void (*)()>(f)(); }, reinterpret_cast<void*>(function),
                      nullptr);
}

} // namespace kiln
