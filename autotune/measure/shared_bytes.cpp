// Creates and maps memory that is shared with other processes.
#include <kiln/autotune/measure/shared_bytes.h>

#include <kiln/dsl/error.h>

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

[[noreturn]] void cannot(const char* call, std::size_t size) {
  throw TargetError("the contents of arguments cannot be shared with measuring processes: " +
                    std::string(call) + " of " + std::to_string(size) + " bytes: " + std::strerror(errno));
}

} // namespace

SharedBytes::SharedBytes(std::size_t size) : size_(size) {
  descriptor_ = memfd_create("kiln-contents", MFD_CLOEXEC);
  if (descriptor_ < 0) cannot("memfd_create", size);
  if (size == 0) return;
  void* mapped = MAP_FAILED;
  if (ftruncate(descriptor_, static_cast<off_t>(size)) == 0)
    mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close(descriptor_);
    errno = error;
    cannot("mmap", size);
  }
  data_ = static_cast<unsigned char*>(mapped);
}

SharedBytes::SharedBytes(int descriptor, std::size_t size) : size_(size) {
  void* mapped = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) cannot("mmap", size);
  data_ = static_cast<unsigned char*>(mapped);
}

SharedBytes::~SharedBytes() {
  if (data_) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

} // namespace kiln::tune
