// Reads safetensors files with pread, so that only what is needed is read.
#include <kiln/collectives/checkpoint/safetensors.h>

#include <kiln/collectives/checkpoint/safetensors_header.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/errno_text.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::collectives {
namespace {

void read_bytes(const std::string& path, int descriptor, std::int64_t offset, void* to, std::int64_t bytes) {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = pread(descriptor, next, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw UserError(path + " cannot be read: " + errno_text(errno));
    if (n == 0) throw UserError(path + " was truncated while it was read; do not write to it meanwhile");
    next += n, offset += n, bytes -= n;
  }
}

} // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), size_(-1) {
  const Data data = open();
  struct stat status{};
  if (fstat(data.descriptor_, &status) != 0) throw UserError(path_ + " cannot be read: " + errno_text(errno));
  size_ = status.st_size;
  std::uint64_t length = 0;
  if (size_ < 8)
    throw UserError(path_ + ": the file has " + std::to_string(size_) +
                    " bytes, fewer than the length of its header takes; copy or download it again");
  read_bytes(path_, data.descriptor_, 0, &length, 8);
  if (length > static_cast<std::uint64_t>(longest_safetensors_header))
    throw UserError(path_ + ": the header has " + std::to_string(length) +
                    " bytes, more than the limit of 100000000 in the format; this is not a safetensors file");
  if (length > static_cast<std::uint64_t>(size_ - 8))
    throw UserError(path_ + ": the header has " + std::to_string(length) + " bytes, and the file " +
                    std::to_string(size_) + "; it is truncated, so copy or download it again");
  std::string text(length, '\0');
  read_bytes(path_, data.descriptor_, 8, text.data(), static_cast<std::int64_t>(length));
  SafetensorsHeader header = parse_safetensors_header(path_, text, size_);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const SafetensorsFile::Tensor& SafetensorsFile::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  throw UserError(path_ + ": there is no tensor " + quoted_name(name) + " among its " +
                  std::to_string(tensors_.size()) + "; tensors() has their names");
}

SafetensorsFile::Data SafetensorsFile::open() const {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  Data data(path_, ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (data.descriptor_ < 0) throw UserError(path_ + " cannot be opened: " + errno_text(errno));
  struct stat status{};
  if (fstat(data.descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    throw UserError(path_ + " is not a file; pass the path of a safetensors file");
  if (size_ >= 0 && status.st_size != size_)
    throw UserError(path_ + " has been replaced since its header was read; open it again");
  return data;
}

SafetensorsFile::Data::~Data() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SafetensorsFile::Data::read(const Tensor& tensor, std::int64_t begin, void* to,
                                 std::int64_t bytes) const {
  if (begin < 0 || bytes < 0 || begin > tensor.bytes || bytes > tensor.bytes - begin)
    throw UserError(path_ + ": " + std::to_string(bytes) + " bytes from byte " + std::to_string(begin) +
                    " on are not part of a tensor of " + std::to_string(tensor.bytes) + " bytes");
  read_bytes(path_, descriptor_, tensor.offset + begin, to, bytes);
}

} // namespace kiln::collectives
