// Implements the injected faults: crashes, hangs, memory exhaustion, and wrong outputs.
#include <kiln/autotune/measure/inject.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/sanitized.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace kiln::tune {

namespace {

[[noreturn]] void spin() {
  static std::atomic<bool> never{false};
  while (!never.load(std::memory_order_relaxed)) {
  }
  std::abort();
}

[[noreturn]] void use_up_memory() {
  if (sanitized) throw std::bad_alloc(); // there is no limit, and each byte needs shadow memory
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 4096; ++i) // far above the limit of the process
    blocks.emplace_back(new char[std::size_t{1} << 30]);
  throw std::bad_alloc();
}

} // namespace

void inject_before_compiling(const std::string& fault) {
  if (fault == "compile error") throw TargetError("an injected compile error");
  if (fault == "compile crash") std::raise(SIGSEGV);
  if (fault == "compile hang") spin();
}

void inject_before_launching(const std::string& fault) {
  if (fault == "crash") std::raise(SIGSEGV);
  if (fault == "hang") spin();
  if (fault == "out of memory") use_up_memory();
}

void inject_into_output(const std::string& fault, std::vector<unsigned char>& bytes, DType dtype) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  if (bytes.size() < size) return;
  unsigned char* at = bytes.data() + bytes.size() / size / 2 * size;
  if (fault == "nan") { // not the NaN of the first pattern
    std::memset(at, 0xFF, size);
    at[size - 1] = 0x7F;
  }
  static int outputs = 0;
  constexpr int right = 2; // those of the check, for a kernel with one output
  const bool raced = fault == "race" && ++outputs > right;
  if (fault == "wrong" || raced) at[size - 1] ^= 0x41; // changes the sign or exponent
}

} // namespace kiln::tune
