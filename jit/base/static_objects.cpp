// Kiln's own static objects are never destroyed; LLVM's would be before those of the program that are older
// than its first kernel, and their destructors may compile kernels. The shared library is linked with
// --wrap=__cxa_atexit, so that what LLVM registers comes here and is forgotten.
#include <kiln/jit/base/static_objects.h>

#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
int __wrap___cxa_atexit(void (*)(void*), void*, void*) { return 0; }
[[gnu::weak]] int __real___cxa_atexit(void (*)(void*), void*, void*); // null where nothing is wrapped
}
// NOLINTEND(bugprone-reserved-identifier)

namespace kiln {

void call_at_exit(void (*function)()) {
  if (!__real___cxa_atexit) return (void)std::atexit(function);
  __real___cxa_atexit([](void* f) { reinterpret_cast<void (*)()>(f)(); }, reinterpret_cast<void*>(function),
                      nullptr);
}

} // namespace kiln
