// Sweeps a cache folder: removes abandoned files first, then the least recently used entries.
#include <kiln/jit/cache/sweep.h>

#include <kiln/jit/cache/entry.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

constexpr const char* stamp_name = "last-sweep";

struct FileInfo {
  std::string name;
  timespec last_used;
  std::uint64_t bytes;
};

// Removes abandoned temporary files and lists the entries. Files with other names are left alone.
std::vector<FileInfo> survey(const Folder& folder, SweepReport& report) {
  std::vector<FileInfo> entries;
  const std::int64_t now = std::time(nullptr);
  for (std::string& name : folder.file_names()) {
    const bool is_entry = key_of_entry_file(name).has_value();
    if (!is_entry && !is_temporary_file(name)) continue;
    struct stat status;
    if (fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue; // just removed by another process
    if (is_entry)
      entries.push_back({std::move(name), status.st_mtim, static_cast<std::uint64_t>(status.st_size)});
    else if (is_abandoned(name, now - status.st_mtim.tv_sec) &&
             unlinkat(folder.descriptor(), name.c_str(), 0) == 0)
      ++report.leftovers_removed;
  }
  return entries;
}

// Returns whether the file is gone, even if another process removed it.
bool remove_entry(const Folder& folder, const FileInfo& entry, SweepReport& report) {
  if (unlinkat(folder.descriptor(), entry.name.c_str(), 0) != 0) return errno == ENOENT;
  ++report.entries_removed;
  report.bytes_removed += entry.bytes;
  return true;
}

bool is_due(int stamp, std::chrono::seconds interval) {
  struct stat status;
  if (fstat(stamp, &status) != 0) return false;
  const std::int64_t age = std::time(nullptr) - status.st_mtim.tv_sec;
  return age >= interval.count() ||
         age < -interval.count(); // a time stamp in the future must not stop sweeps forever
}

} // namespace

SweepReport sweep(const Folder& folder, std::uint64_t limit) {
  SweepReport report;
  std::vector<FileInfo> entries = survey(folder, report);
  std::uint64_t total = 0;
  for (const FileInfo& entry : entries)
    total += entry.bytes;
  report.entries_left = entries.size();
  if (total > limit) {
    std::sort(entries.begin(), entries.end(), [](const FileInfo& a, const FileInfo& b) {
      if (a.last_used.tv_sec != b.last_used.tv_sec) return a.last_used.tv_sec < b.last_used.tv_sec;
      return a.last_used.tv_nsec < b.last_used.tv_nsec;
    });
    const std::uint64_t target = limit - limit / 8;
    for (const FileInfo& entry : entries) {
      if (total <= target) break;
      if (!remove_entry(folder, entry, report)) continue;
      total -= entry.bytes;
      --report.entries_left;
    }
  }
  report.bytes_left = total;
  return report;
}

bool sweep_if_due(const Folder& folder, std::uint64_t limit, std::chrono::seconds interval,
                  SweepReport& report) {
  struct stat status;
  const bool first = fstatat(folder.descriptor(), stamp_name, &status, AT_SYMLINK_NOFOLLOW) != 0;
  const int stamp =
      openat(folder.descriptor(), stamp_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (stamp < 0) return false;
  // If several processes find the time stamp old, the one that gets the lock sweeps, and the others do not
  // wait. On file systems without locks two processes may sweep at once, which is harmless.
  const bool busy = flock(stamp, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool swept = !busy && (first || is_due(stamp, interval));
  if (swept) {
    futimens(stamp, nullptr); // before the work, so that other processes do not sweep again if this one dies
    report = sweep(folder, limit);
  }
  close(stamp);
  return swept;
}

SweepReport remove_all(const Folder& folder) {
  SweepReport report;
  for (const FileInfo& entry : survey(folder, report)) {
    if (remove_entry(folder, entry, report)) continue;
    ++report.entries_left;
    report.bytes_left += entry.bytes;
  }
  return report;
}

} // namespace kiln::cache
