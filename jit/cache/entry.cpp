// Reads and checks entries of the kernel cache.
#include <kiln/jit/cache/entry.h>

#include <kiln/jit/cache/entry_format.h>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

constexpr std::string_view suffix = ".kiln";

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

ReadResult bad(std::string problem) { return {Outcome::bad, {}, std::move(problem)}; }
ReadResult bad_errno() { return bad(std::strerror(errno)); }
ReadResult missing() { return {}; }

enum class Transfer { complete, short_file, failed };

Transfer read_all(int fd, char* to, std::uint64_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, to, size);
    if (n == 0) return Transfer::short_file;
    if (n < 0) {
      if (errno == EINTR) continue;
      return Transfer::failed;
    }
    to += n;
    size -= static_cast<std::uint64_t>(n);
  }
  return Transfer::complete;
}

// Whether an error is temporary and unrelated to the entry, so that the next attempt may succeed.
bool is_passing(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

// Checks a file without reading it; returns what is wrong. Owner and mode matter even in a private folder,
// because the folder may have been open to others before.
std::string problem_of_file(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "not a regular file";
  if (status.st_uid != geteuid()) return fmt::format("owned by uid {}", status.st_uid);
  if (status.st_mode & 022) return fmt::format("writable by others, mode {:04o}", status.st_mode & 07777);
  if (static_cast<std::uint64_t>(status.st_size) < sizeof(EntryHeader))
    return fmt::format("truncated: {} bytes, less than a header", status.st_size);
  return {};
}

std::string problem_of_header(const EntryHeader& header, const Key& key, std::uint64_t file_bytes) {
  if (std::memcmp(header.magic, entry_magic, sizeof entry_magic) != 0) return "not a kernel cache entry";
  if (header.format_version != entry_format_version)
    return fmt::format("format version {}, not {}", header.format_version, entry_format_version);
  if (Key{header.key_high, header.key_low} != key) return "it holds another key";
  if (header.metadata_bytes > most_metadata_bytes || header.payload_bytes > most_payload_bytes)
    return "impossible sizes";
  const std::uint64_t expected = sizeof header + header.metadata_bytes + header.payload_bytes;
  if (file_bytes != expected) return fmt::format("{} bytes long instead of {}", file_bytes, expected);
  return {};
}

bool parse_metadata(std::span<const char> bytes, Entry& entry) {
  for (std::string* text : {&entry.metadata.kernel, &entry.metadata.config, &entry.metadata.target,
                            &entry.kiln_version, &entry.llvm_version}) {
    std::uint32_t size;
    if (bytes.size() < sizeof size) return false;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes = bytes.subspan(sizeof size);
    if (bytes.size() < size) return false;
    text->assign(bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return bytes.empty();
}

} // namespace

std::string entry_file_name(const Key& key) { return to_string(key).append(suffix); }

std::optional<Key> key_of_entry_file(std::string_view name) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  return parse_key(name);
}

ReadResult read_entry(int folder, const Key& key, Extent extent) {
  const std::string name = entry_file_name(key);
  const Descriptor file{
      openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) {
    if (errno == ENOENT || is_passing(errno)) return missing();
    if (errno == ELOOP) return bad("a symbolic link");
    return bad_errno();
  }
  struct stat status;
  if (fstat(file.fd, &status) != 0) return bad_errno();
  if (std::string problem = problem_of_file(status); !problem.empty()) return bad(std::move(problem));

  EntryHeader header;
  const Transfer header_read = read_all(file.fd, reinterpret_cast<char*>(&header), sizeof header);
  if (header_read != Transfer::complete)
    return header_read == Transfer::failed ? bad_errno() : bad("truncated");
  ReadResult result;
  Entry& entry = result.entry;
  entry.file_bytes = static_cast<std::uint64_t>(status.st_size);
  entry.last_used = status.st_mtim.tv_sec;
  entry.created = header.created;
  entry.payload_bytes = header.payload_bytes;
  if (std::string problem = problem_of_header(header, key, entry.file_bytes); !problem.empty())
    return bad(std::move(problem));

  std::vector<char> metadata(header.metadata_bytes);
  if (extent == Extent::everything) entry.payload.resize(header.payload_bytes);
  for (std::vector<char>* part : {&metadata, &entry.payload}) {
    const Transfer part_read = read_all(file.fd, part->data(), part->size());
    if (part_read != Transfer::complete)
      return part_read == Transfer::failed ? bad_errno() : bad("truncated");
  }
  if (extent == Extent::everything &&
      checksum_of(header, metadata, entry.payload) != Key{header.checksum_high, header.checksum_low})
    return bad("the checksum does not match");
  if (!parse_metadata(metadata, entry)) return bad("malformed metadata");
  result.outcome = Outcome::found;
  return result;
}

} // namespace kiln::cache
