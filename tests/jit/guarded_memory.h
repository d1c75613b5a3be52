// Memory beside pages that nobody may touch.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>

namespace kiln::test {

// Memory that ends (or begins) at a page nobody may touch, so that one element too far is a crash.
class GuardedMemory {
public:
  GuardedMemory(std::size_t bytes, bool at_end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    if (inner) REQUIRE(mprotect(base_ + page, inner, PROT_READ | PROT_WRITE) == 0);
    data = base_ + page + (at_end ? inner - bytes : 0);
  }
  ~GuardedMemory() { munmap(base_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  char* data = nullptr;

private:
  char* base_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace kiln::test
