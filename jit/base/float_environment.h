// Sets the processor's floating-point modes while kernels are compiled and run.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kiln {

// While it lives, the calling thread rounds to nearest even, keeps denormals and raises no traps, as the
// definition of kernels' results requires (dsl/SEMANTICS.md). The surrounding program may use other modes:
// with -ffast-math it flushes denormals to zero, and it may enable traps to find its own errors, which lanes
// beyond the end of a tile would raise.
class DefaultFloatEnvironment {
public:
  DefaultFloatEnvironment() noexcept : before_(read()) {
    if (modes(before_) != defaults) write(defaults);
  }
  ~DefaultFloatEnvironment() {
    if (modes(before_) != defaults) write(before_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;

private:
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word defaults = 0x1f80;               // MXCSR with all exceptions masked
  static Word modes(Word word) { return word & ~0x3fu; } // without the flags of past exceptions
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word defaults = 0; // FPCR
  static Word modes(Word word) { return word; }
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#endif
  Word before_;
};

} // namespace kiln
