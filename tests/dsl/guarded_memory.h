// Allocates memory between two inaccessible pages, so that an access before its start or past its end ends
// the test.
#pragma once

#include <kiln/dsl/error.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace kiln::test {

class GuardedMemory {
public:
  enum class Place {
    AtStart,
    AtEnd
  }; // whether the memory begins after the first page or ends at the second one

  // With Place::AtEnd, the start is aligned to `alignment`, which may leave up to alignment - 1 bytes between
  // the end and the page.
  GuardedMemory(std::size_t bytes, Place place, std::size_t alignment) {
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t inner = (bytes + page - 1) / page * page + (bytes == 0 ? page : 0);
    size_ = inner + 2 * page;
    void* all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    internal_check(all != MAP_FAILED, "mmap of a test's memory failed");
    all_ = static_cast<std::byte*>(all);
    internal_check(mprotect(all_ + page, inner, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    data_ = all_ + page;
    if (place == Place::AtEnd) data_ += (inner - bytes) / alignment * alignment;
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : all_(std::exchange(other.all_, nullptr)), size_(other.size_), data_(other.data_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory() {
    if (all_) munmap(all_, size_);
  }
  std::byte* data() const { return data_; }

private:
  std::byte* all_ = nullptr;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

} // namespace kiln::test
