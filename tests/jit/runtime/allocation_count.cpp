// Replaces operator new by a version that counts its calls. With the address sanitizer, which has its own
// operator new and checks that new and delete match, nothing is replaced and the count stays constant.
#include <allocation_count.h>

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define KILN_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#define KILN_COUNT_ALLOCATIONS !__has_feature(address_sanitizer)
#else
#define KILN_COUNT_ALLOCATIONS 1
#endif

namespace {
[[maybe_unused]] thread_local long allocations = 0;
}

long allocation_count() { return allocations; }

#if KILN_COUNT_ALLOCATIONS
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
