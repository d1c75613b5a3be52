// Finds, creates, checks and opens the cache folder.
#include <kiln/jit/cache/folder.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr const char* other_folder = "set KILN_CACHE_DIR to a folder of your own";

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// mkdir -p with mode 0700. Another process may create the same folders at the same time.
bool create_folders(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  if (errno != ENOENT || !path.has_relative_path()) return false;
  if (!create_folders(path.parent_path())) return false;
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

std::string refusal(const fs::path& path, const struct stat& status) {
  const unsigned mode = status.st_mode & 07777;
  if (status.st_uid != geteuid())
    return fmt::format(
        "the folder {} belongs to uid {} and this process runs as uid {} (mode {:04o}): its owner could "
        "put code into it; {}",
        path.string(), status.st_uid, geteuid(), mode, other_folder);
  if (mode & 022)
    return fmt::format(
        "others can write to the folder {} (owner uid {}, mode {:04o}) and could put code into it; run "
        "`chmod go-w '{}'`, or {}",
        path.string(), status.st_uid, mode, path.string(), other_folder);
  return {};
}

} // namespace

fs::path standard_folder() {
  if (const char* folder = environment("KILN_CACHE_DIR")) return folder;
  if (const char* cache = environment("XDG_CACHE_HOME"); cache && *cache == '/')
    return fs::path(cache) / "kiln";
  if (const char* home = environment("HOME")) return fs::path(home) / ".cache" / "kiln";
  return {};
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    const char suffix = text.back() & ~0x20; // upper case
    shift = suffix == 'K' ? 10 : suffix == 'M' ? 20 : suffix == 'G' ? 30 : 0;
    if (shift) text.remove_suffix(1);
  }
  if (text.empty()) return std::nullopt;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const std::uint64_t digit = static_cast<std::uint64_t>(c - '0');
    if (value > (most - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  if (value > most >> shift) return std::nullopt;
  return value << shift;
}

Folder::~Folder() { close(descriptor_); }

std::vector<std::string> Folder::file_names() const {
  std::vector<std::string> names;
  // A descriptor of its own: the read position must not be shared with other threads and forked processes.
  const int fd = openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return names;
  DIR* folder = fdopendir(fd);
  if (!folder) {
    close(fd);
    return names;
  }
  while (const dirent* entry = readdir(folder))
    names.emplace_back(entry->d_name);
  closedir(folder);
  return names;
}

OpenFolder open_folder(const fs::path& path, IfMissing if_missing) {
  if (path.empty())
    return {nullptr,
            fmt::format("neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set; {}", other_folder)};
  if (if_missing == IfMissing::create && !create_folders(path))
    return {nullptr, fmt::format("the folder {} cannot be created ({}); {}", path.string(),
                                 std::strerror(errno), other_folder)};
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && if_missing == IfMissing::leave) return {};
    return {nullptr, fmt::format("the folder {} cannot be opened ({}); {}", path.string(),
                                 std::strerror(errno), other_folder)};
  }
  auto folder = std::make_shared<const Folder>(fd, path);
  struct stat status;
  if (fstat(fd, &status) != 0)
    return {nullptr, fmt::format("the folder {} cannot be examined ({}); {}", path.string(),
                                 std::strerror(errno), other_folder)};
  if (std::string problem = refusal(path, status); !problem.empty()) return {nullptr, std::move(problem)};
  return {std::move(folder), {}};
}

} // namespace kiln::cache
