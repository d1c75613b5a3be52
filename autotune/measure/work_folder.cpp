// Creates and locks a folder, and removes folders that killed tuners left behind.
#include <kiln/autotune/measure/work_folder.h>

#include <kiln/dsl/error.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {

namespace {

namespace fs = std::filesystem;

constexpr const char *prefix = "kiln-tune-", *lock_name = "lock";

bool is_own(const fs::path& folder) {
  struct stat facts = {};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
}

// A folder that was created a moment ago may not be locked yet.
bool is_old(const fs::path& lock) {
  std::error_code error;
  const fs::file_time_type made = fs::last_write_time(lock, error);
  return !error && fs::file_time_type::clock::now() - made > std::chrono::minutes(10);
}

void remove_unless_locked(const fs::path& folder) {
  const int lock = open((folder / lock_name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return;
  std::error_code ignored;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) fs::remove_all(folder, ignored);
  close(lock);
}

void remove_left_behind(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator i(parent, error), end; !error && i != end; i.increment(error)) {
    const fs::path& folder = i->path();
    const bool ours = folder.filename().string().starts_with(prefix) && is_own(folder);
    if (ours && is_old(folder / lock_name)) remove_unless_locked(folder);
  }
}

} // namespace

WorkFolder::WorkFolder() {
  const char* given = std::getenv("TMPDIR");
  const fs::path parent = given && *given ? given : "/tmp";
  remove_left_behind(parent);
  path_ = (parent / (std::string(prefix) + "XXXXXX")).string();
  if (!mkdtemp(path_.data()))
    throw TargetError("the tuner's folder " + path_ + " cannot be created: " + std::strerror(errno) +
                      "; set TMPDIR to a folder with free space");
  lock_ = open((path_ + "/" + lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ >= 0) flock(lock_, LOCK_EX | LOCK_NB);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

} // namespace kiln::tune
