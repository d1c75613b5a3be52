// Writes entries of the kernel cache so that readers never see a partial one, and recognises abandoned
// temporary files.
#include <kiln/jit/cache/entry.h>

#include <kiln/jit/base/version.h>
#include <kiln/jit/cache/entry_format.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

constexpr std::string_view temporary_prefix = "kiln-tmp.";
constexpr std::int64_t dead_for = 10 * 60;
constexpr std::int64_t silent_for = 24 * 60 * 60;

void append_text(std::vector<char>& bytes, std::string_view text) {
  text = text.substr(0, most_text_bytes);
  const std::uint32_t size = static_cast<std::uint32_t>(text.size());
  const char* size_bytes = reinterpret_cast<const char*>(&size);
  bytes.insert(bytes.end(), size_bytes, size_bytes + sizeof size);
  bytes.insert(bytes.end(), text.begin(), text.end());
}

std::vector<char> encode_metadata(const Metadata& metadata) {
  std::vector<char> bytes;
  for (std::string_view text :
       {std::string_view(metadata.kernel), std::string_view(metadata.config),
        std::string_view(metadata.target), std::string_view(version()), std::string_view(llvm_version())})
    append_text(bytes, text);
  return bytes;
}

std::string first_line_of(const char* path) {
  char text[256];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t n = read(fd, text, sizeof text);
  close(fd);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
}

// Identifies the processes whose ids can be compared with those of this process: same boot of the same
// machine, same pid namespace. Two containers may share a folder and a host name, and the processes of one
// would appear to be dead in the other.
std::string process_space() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  struct stat pid_namespace = {};
  const bool known = stat("/proc/self/ns/pid", &pid_namespace) == 0;
  const Key key = KeyBuilder()
                      .add(host)
                      .add(first_line_of("/proc/sys/kernel/random/boot_id"))
                      .add(known ? pid_namespace.st_ino : 0)
                      .key();
  return fmt::format("{:016x}", key.low);
}

std::string temporary_name() {
  static std::atomic<std::uint64_t> counter = 0;
  return fmt::format("{}{}.{}.{}", temporary_prefix, process_space(), getpid(), counter.fetch_add(1));
}

struct TemporaryName {
  std::string_view space;
  pid_t pid;
};

// Strict, because abandoned files are deleted, and a cache folder may contain files of the user.
std::optional<TemporaryName> parse_temporary(std::string_view name) {
  if (!name.starts_with(temporary_prefix)) return std::nullopt;
  name.remove_prefix(temporary_prefix.size());
  if (name.size() < 17 || name[16] != '.') return std::nullopt;
  TemporaryName result{name.substr(0, 16), 0};
  if (result.space.find_first_not_of("0123456789abcdef") != name.npos) return std::nullopt;
  name.remove_prefix(17);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), result.pid);
  if (error != std::errc() || result.pid <= 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (name.size() < 2 || name[0] != '.') return std::nullopt;
  if (name.substr(1).find_first_not_of("0123456789") != name.npos) return std::nullopt;
  return result;
}

int write_all(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (n == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

// Whether a file of this size exceeds the process's limit. Writing it would raise SIGXFSZ, which by default
// ends the process.
bool exceeds_file_size_limit(std::uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

} // namespace

int publish_entry(int folder, const Key& key, std::span<const char> payload, const Metadata& metadata) {
  const std::vector<char> metadata_bytes = encode_metadata(metadata);
  EntryHeader header = {};
  std::memcpy(header.magic, entry_magic, sizeof entry_magic);
  header.format_version = entry_format_version;
  header.key_high = key.high;
  header.key_low = key.low;
  header.metadata_bytes = metadata_bytes.size();
  header.payload_bytes = payload.size();
  header.created = std::time(nullptr);
  const Key sum = checksum_of(header, metadata_bytes, payload);
  header.checksum_high = sum.high;
  header.checksum_low = sum.low;
  if (payload.size() > most_payload_bytes) return EFBIG;
  if (exceeds_file_size_limit(sizeof header + metadata_bytes.size() + payload.size())) return EFBIG;

  // A dead process with the same id may have used the name; the counter finds a free one.
  std::string temporary;
  int fd;
  do {
    temporary = temporary_name();
    fd = openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  } while (fd < 0 && (errno == EEXIST || errno == EINTR));
  if (fd < 0) return errno;
  int error = fchmod(fd, 0600) == 0 ? 0 : errno; // independent of the umask
  if (!error) error = write_all(fd, {reinterpret_cast<const char*>(&header), sizeof header});
  if (!error) error = write_all(fd, metadata_bytes);
  if (!error) error = write_all(fd, payload);
  if (close(fd) != 0 && !error && errno != EINTR)
    error = errno; // network file systems may report a full disk only here
  // Renaming also replaces a damaged entry. If several processes publish one key, all write the right bytes,
  // and the last one wins. Readers keep the file that they have opened.
  if (!error && renameat(folder, temporary.c_str(), folder, entry_file_name(key).c_str()) != 0) error = errno;
  if (error) unlinkat(folder, temporary.c_str(), 0);
  return error;
}

bool is_temporary_file(std::string_view name) { return parse_temporary(name).has_value(); }

bool is_abandoned(std::string_view name, std::int64_t age) {
  const std::optional<TemporaryName> temporary = parse_temporary(name);
  if (!temporary) return false;
  if (age > silent_for) return true;
  if (age <= dead_for || temporary->space != process_space()) return false;
  return kill(temporary->pid, 0) != 0 && errno == ESRCH;
}

} // namespace kiln::cache
