// Implements reading, publishing and locking of files.
#include <kiln/autotune/records/files.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {
namespace {

constexpr std::string_view temporary_prefix = ".tmp-";

int sync_file(const File& file) {
  // Network file systems report a full disk only here.
  return fsync(file.get()) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

} // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::shared_ptr<const cache::Folder> open_subfolder(const cache::Folder& parent, const std::string& name,
                                                    cache::IfMissing if_missing) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  int fd = openat(parent.descriptor(), name.c_str(), flags);
  if (fd < 0 && errno == ENOENT && if_missing == cache::IfMissing::create) {
    if (mkdirat(parent.descriptor(), name.c_str(), 0700) != 0 && errno != EEXIST) return nullptr;
    fd = openat(parent.descriptor(), name.c_str(), flags);
  }
  if (fd < 0) return nullptr;
  return std::make_shared<const cache::Folder>(fd, parent.path() / name);
}

std::vector<std::string> subfolders(const cache::Folder& folder) {
  std::vector<std::string> names = folder.file_names();
  std::erase_if(names, [&](const std::string& name) {
    struct stat status;
    return name.starts_with('.') ||
           fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
           !S_ISDIR(status.st_mode);
  });
  std::sort(names.begin(), names.end());
  return names;
}

File open_regular(const cache::Folder& folder, const std::string& name, std::uint64_t* size) {
  File file(openat(folder.descriptor(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (size) *size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

std::optional<std::string> read_file(const cache::Folder& folder, const std::string& name,
                                     std::uint64_t offset, std::uint64_t most) {
  std::uint64_t size = 0;
  const File file = open_regular(folder, name, &size);
  if (!file) return std::nullopt;
  size = size > offset ? size - offset : 0;
  if (size > most) return std::nullopt;
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

LinesRead for_each_line(const cache::Folder& folder, const std::string& name,
                        const std::function<void(std::string_view)>& take, std::uint64_t offset, bool last,
                        std::size_t most) {
  LinesRead result;
  result.next = offset;
  const File file = open_regular(folder, name);
  if (!file) return result;
  result.opened = true;
  std::vector<char> buffer(most);
  std::size_t filled = 0; // the beginning of a line
  for (std::uint64_t at = offset;;) {
    const ssize_t n = pread(file.get(), buffer.data() + filled, most - filled, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<std::uint64_t>(n);
    std::string_view rest(buffer.data(), filled + static_cast<std::size_t>(n));
    for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1))
      take(rest.substr(0, end));
    if (rest.size() == most) {
      take(rest);
      rest = {};
    }
    result.next = at - rest.size();
    filled = rest.size();
    std::memmove(buffer.data(), rest.data(), filled);
  }
  result.torn = filled != 0;
  if (result.torn && last) take({buffer.data(), filled});
  return result;
}

int write_once(int file, std::string_view bytes, std::size_t& written) {
  written = 0;
  ssize_t n;
  do
    n = write(file, bytes.data(), bytes.size());
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno;
  written = static_cast<std::size_t>(n);
  return written == bytes.size() ? 0 : ENOSPC;
}

int publish_file(const cache::Folder& folder, const std::string& name, std::string_view bytes) {
  if (exceeds_file_limit(0, bytes.size())) return EFBIG;
  const std::string temporary = std::string(temporary_prefix) + unique_name();
  File file(openat(folder.descriptor(), temporary.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno;
  int error = 0;
  for (std::string_view rest = bytes; !error && !rest.empty();) {
    std::size_t written = 0;
    error = write_once(file.get(), rest, written);
    if (error == ENOSPC && written != 0) error = 0; // the next call gets the error
    rest.remove_prefix(written);
  }
  if (!error) error = sync_file(file);
  if (!error && renameat(folder.descriptor(), temporary.c_str(), folder.descriptor(), name.c_str()) != 0)
    error = errno;
  if (error)
    unlinkat(folder.descriptor(), temporary.c_str(), 0);
  else
    fsync(folder.descriptor()); // syncs the rename; if this fails, a power cut may undo it
  return error;
}

bool is_temporary(std::string_view name) { return name.starts_with(temporary_prefix); }

bool exceeds_file_limit(std::uint64_t offset, std::size_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         offset + bytes > limit.rlim_cur;
}

bool try_lock(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool lock_within(int file, double seconds) {
  for (;; seconds -= 0.01) {
    if (try_lock(file)) return true;
    if ((errno != EAGAIN && errno != EACCES) || seconds <= 0) return false;
    usleep(10'000);
  }
}

std::string file_word(std::string_view text) {
  std::string word(text.substr(0, 64));
  for (char& c : word)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '-' || c == '.'))
      c = '_';
  if (word.empty() || word[0] == '.') word.insert(word.begin(), '_');
  return word;
}

std::string unique_name() {
  static std::atomic<unsigned> counter = 0;
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format("{}-{}-{}{:09}-{}", file_word(host), getpid(), now.tv_sec, now.tv_nsec,
                     counter.fetch_add(1));
}

} // namespace kiln::tune
