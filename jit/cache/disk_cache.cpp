// Implements the kernel cache on disk: hits, misses and failures.
#include <kiln/jit/cache/disk_cache.h>

#include <kiln/jit/base/options.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

void write_warning(std::string_view message) {
  std::fprintf(stderr, "kiln: warning: %.*s\n", static_cast<int>(message.size()), message.data());
}

// Errors that a later store may not have: temporary ones of the process, and a folder in place of this entry.
bool may_succeed_later(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == EISDIR;
}

void mark_used(const Folder& folder, const Key& key) {
  const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  utimensat(folder.descriptor(), entry_file_name(key).c_str(), now, AT_SYMLINK_NOFOLLOW);
}

} // namespace

DiskCache::DiskCache(std::filesystem::path folder, Limits limits)
    : path_(std::move(folder)), limits_(limits), off_(limits.bytes == 0), handler_(write_warning) {
  std::error_code error; // keep the absolute path, because the process may change its working folder
  if (path_.empty() || path_.is_absolute()) return;
  if (std::filesystem::path absolute = std::filesystem::absolute(path_, error); !error)
    path_ = std::move(absolute);
}

DiskCache& DiskCache::standard() {
  // Never destroyed, because static objects may still compile kernels while the process ends.
  static DiskCache& cache = *[] {
    const Options options = read_environment();
    return new DiskCache(options.cache_dir, {.bytes = options.cache_limit});
  }();
  return cache;
}

std::shared_ptr<const Folder> DiskCache::open(IfMissing if_missing) {
  if (off_) return nullptr;
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    if (folder_ || off_) return folder_;
    OpenFolder opened = open_folder(path_, if_missing);
    folder_ = opened.folder;
    if (opened.problem.empty()) return folder_;
    if (opened.passing && std::exchange(warned_of_passing_, true)) return nullptr;
    off_ = !opened.passing;
    problem = std::move(opened.problem);
  }
  warn(fmt::format("the kernel cache is {}: {}", off_ ? "off for this process" : "not used now", problem));
  return nullptr;
}

std::optional<std::vector<char>> DiskCache::load(const Key& key) noexcept {
  try {
    bool found = false;
    std::vector<char> payload = load_or_throw(key, found);
    ++(found ? hits_ : misses_);
    if (found) return payload;
  } catch (...) { // no memory for the payload
    ++misses_;
  }
  return std::nullopt;
}

std::vector<char> DiskCache::load_or_throw(const Key& key, bool& found) {
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  if (!folder) return {};
  ReadResult result = read_entry(folder->descriptor(), key, Extent::everything);
  if (result.outcome == Outcome::bad) warn_bad_entry(key, result.problem);
  if (result.outcome != Outcome::found) return {};
  if (std::time(nullptr) - result.entry.last_used >= limits_.touch_after.count()) mark_used(*folder, key);
  found = true;
  return std::move(result.entry.payload);
}

void DiskCache::store(const Key& key, std::span<const char> payload, const Metadata& metadata) noexcept {
  try {
    store_or_throw(key, payload, metadata);
  } catch (...) { // no memory for the entry
    ++failed_stores_;
  }
}

void DiskCache::store_or_throw(const Key& key, std::span<const char> payload, const Metadata& metadata) {
  if (off_ || stores_off_ || payload.size() > limits_.bytes) return;
  const std::optional<int> error = publish(key, payload, metadata);
  if (!error) return;
  if (*error != 0) {
    ++failed_stores_;
    if (may_succeed_later(*error) || stores_off_.exchange(true)) return;
    warn(fmt::format(
        "compiled kernels are no longer stored by this process: writing to the cache folder {} failed ({}); "
        "make room or set KILN_CACHE_DIR to a folder that can be written",
        path_.string(), std::strerror(*error)));
    return;
  }
  ++stores_;
  SweepReport report;
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  if (folder && sweep_if_due(*folder, limits_.bytes, limits_.sweep_interval, report))
    evicted_ += report.entries_removed;
}

// Returns an errno or 0, or nothing if the cache is off. If the folder was removed after it was opened, it is
// created again.
std::optional<int> DiskCache::publish(const Key& key, std::span<const char> payload,
                                      const Metadata& metadata) {
  int error = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::shared_ptr<const Folder> folder = open(IfMissing::create);
    if (!folder) return std::nullopt;
    error = publish_entry(folder->descriptor(), key, payload, metadata);
    if (error != ENOENT) break;
    const std::lock_guard lock(mutex_);
    if (folder_ == folder) folder_ = nullptr;
  }
  return error;
}

std::vector<Key> DiskCache::keys(const Folder& folder) const {
  std::vector<Key> keys;
  for (const std::string& name : folder.file_names())
    if (const std::optional<Key> key = key_of_entry_file(name)) keys.push_back(*key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<ListedEntry> DiskCache::list() {
  std::vector<ListedEntry> entries;
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  if (!folder) return entries;
  for (const Key& key : keys(*folder)) {
    ReadResult result = read_entry(folder->descriptor(), key, Extent::metadata);
    if (result.outcome != Outcome::missing)
      entries.push_back({key, std::move(result.entry), std::move(result.problem)});
  }
  std::sort(entries.begin(), entries.end(), [](const ListedEntry& a, const ListedEntry& b) {
    if (a.entry.last_used != b.entry.last_used) return a.entry.last_used > b.entry.last_used;
    return a.key < b.key;
  });
  return entries;
}

std::vector<VerifiedEntry> DiskCache::verify(BadEntries bad) {
  std::vector<VerifiedEntry> entries;
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  if (!folder) return entries;
  for (const Key& key : keys(*folder)) {
    ReadResult result = read_entry(folder->descriptor(), key, Extent::everything);
    if (result.outcome == Outcome::missing) continue;
    VerifiedEntry& entry =
        entries.emplace_back(VerifiedEntry{key, result.entry.metadata.kernel, result.problem, false});
    // If another process replaces the entry at this moment, a correct entry is removed, and compiled again
    // later.
    if (result.outcome == Outcome::bad && bad == BadEntries::remove)
      entry.removed = unlinkat(folder->descriptor(), entry_file_name(key).c_str(), 0) == 0;
  }
  return entries;
}

SweepReport DiskCache::clear() {
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  return folder ? remove_all(*folder) : SweepReport();
}

SweepReport DiskCache::sweep_now() {
  const std::shared_ptr<const Folder> folder = open(IfMissing::leave);
  const SweepReport report = folder ? sweep(*folder, limits_.bytes) : SweepReport();
  evicted_ += report.entries_removed;
  return report;
}

Stats DiskCache::stats() const { return {hits_, misses_, bad_entries_, stores_, failed_stores_, evicted_}; }

void DiskCache::set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = handler ? std::move(handler) : write_warning;
}

void DiskCache::warn(const std::string& message) {
  WarningHandler handler;
  {
    const std::lock_guard lock(mutex_);
    handler = handler_;
  }
  handler(message);
}

void DiskCache::warn_bad_entry(const Key& key, const std::string& problem) {
  ++bad_entries_;
  {
    const std::lock_guard lock(mutex_);
    if (!warned_.insert(key).second) return;
  }
  warn(fmt::format("the kernel cache entry {} is not usable: {}; the kernel is compiled again",
                   (path_ / entry_file_name(key)).string(), problem));
}

} // namespace kiln::cache
