// Installs a handler for failed allocations in LLVM.
#include <kiln/jit/emit/out_of_memory.h>

#include <llvm/Support/ErrorHandling.h>

#include <mutex>
#include <new>

namespace kiln::emit {

void throw_when_out_of_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
  });
}

} // namespace kiln::emit
