// Holds bytes in memory that other processes can map: the contents of an argument, for a tuner's workers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace kiln::tune {

class SharedBytes {
public:
  // Creates zeros. Throws TargetError if the system provides no such memory.
  explicit SharedBytes(std::size_t size);
  // Maps bytes that another process has created, through a descriptor that this process inherited, for
  // reading only. The descriptor stays open. Throws TargetError if that is impossible.
  SharedBytes(int descriptor, std::size_t size);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  // Only the process that created them may write.
  unsigned char* data() { return data_; }
  const unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }
  int descriptor() const { return descriptor_; } // for child processes; -1 if another process created them

private:
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

// The contents of each argument of a launch; null: they are made up.
using GivenContents = std::vector<std::shared_ptr<const SharedBytes>>;

} // namespace kiln::tune
