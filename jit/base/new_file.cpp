// Writes a temporary file, and renames it.
#include <kiln/jit/base/new_file.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/errno_text.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace kiln {

NewFile::NewFile(std::string path, Words words) : path_(std::move(path)), words_(std::move(words)) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool there = fs::exists(path_, ignored), direct = there && !fs::is_regular_file(path_, ignored);
  target_ = there && !direct ? fs::canonical(path_, ignored).string() : path_;
  temporary_ = direct ? path_ : target_ + ".new-" + std::to_string(getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail();
  published_ = direct;
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!published_) unlink(temporary_.c_str());
}

void NewFile::fail() const {
  throw UserError(words_.what + (words_.what.empty() ? "" : " ") + path_ +
                  " cannot be written: " + errno_text(errno) + words_.fix);
}

void NewFile::append(const void* data, std::int64_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(descriptor_, next, static_cast<std::size_t>(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    next += n, bytes -= n;
  }
}

void NewFile::finish() {
  // Pipes and some file systems cannot do this.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOSYS) fail();
  if (close(std::exchange(descriptor_, -1)) != 0) fail();
}

void NewFile::publish() {
  if (!published_ && std::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  published_ = true;
}

} // namespace kiln
