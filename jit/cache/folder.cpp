// Creates, checks and opens the cache folder.
#include <kiln/jit/cache/folder.h>

#include <kiln/jit/base/errno_text.h>
#include <kiln/jit/base/options.h>

#include <cerrno>
#include <optional>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

OpenFolder refused(std::string why, std::string_view joint = "; ") {
  std::string problem = fmt::format("{}{}set KILN_CACHE_DIR to a folder of your own", why, joint);
  return {nullptr, std::move(problem), std::move(why)};
}

// Creates a folder and its parents, like mkdir -p, with mode 0700. Other processes may create them at the
// same time.
bool create_folders(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  if (errno != ENOENT || !path.has_relative_path()) return false;
  if (!create_folders(path.parent_path())) return false;
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

std::optional<OpenFolder> refusal(const fs::path& path, const struct stat& status) {
  const unsigned mode = status.st_mode & 07777;
  if (status.st_uid != geteuid())
    return refused(fmt::format(
        "the folder {} belongs to uid {} and this process runs as uid {} (mode {:04o}): its owner could "
        "put code into it",
        path.string(), status.st_uid, geteuid(), mode));
  if (mode & 022)
    return refused(
        fmt::format("others can write to the folder {} (owner uid {}, mode {:04o}) and could put code into "
                    "it; run `chmod go-w '{}'`",
                    path.string(), status.st_uid, mode, path.string()),
        ", or ");
  return std::nullopt;
}

} // namespace

fs::path standard_folder() { return read_environment().cache_dir; }

Folder::~Folder() { close(descriptor_); }

std::vector<std::string> Folder::file_names() const {
  std::vector<std::string> names;
  // Opens another descriptor, because its read position must not be shared with other threads and forked
  // processes.
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
  if (path.empty()) return refused("neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set");
  const auto failed = [&](const char* what) {
    const int error = errno;
    std::string why = fmt::format("the folder {} cannot be {} ({})", path.string(), what, errno_text(error));
    if (no_descriptor_left(error)) return OpenFolder{nullptr, why, why, true};
    return refused(std::move(why));
  };
  if (if_missing == IfMissing::create && !create_folders(path)) return failed("created");
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && if_missing == IfMissing::leave) return {};
  if (fd < 0) return failed("opened");
  auto folder = std::make_shared<const Folder>(fd, path);
  struct stat status;
  if (fstat(fd, &status) != 0) return failed("examined");
  if (auto unsafe = refusal(path, status)) return *std::move(unsafe);
  return {std::move(folder), {}, {}};
}

} // namespace kiln::cache
