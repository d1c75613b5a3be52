// Declares the kernel cache on disk, which all processes of a user share.
//
//   auto& disk = cache::DiskCache::standard();
//   if (auto object = disk.load(key)) return link(*object);
//   auto object = compile();
//   disk.store(key, object, {.kernel = "matmul", .config = "BM=128 BN=256", .target = "x86-64 znver4"});
//
// Loading and storing never fail: a problem with the disk costs one warning and a compilation.
// - A damaged, foreign or outdated entry counts as missing, with one warning per process and entry. The next
//   store replaces it.
// - A missing folder is created (mode 0700). If that fails, or if another user owns the folder or can write
//   to it, the cache is off for this process, with one warning that says what to do.
// - If a store fails (full disk, read-only file system, no permission, limit of file sizes), this process
//   stores nothing more, with one warning, but still loads entries.
// - A process may be killed at any time, and any number of processes may use one folder at once (see
//   entry.h).
// - After a store, but at most once an hour for all processes together, the least recently used entries are
//   removed if the limit is exceeded (see sweep.h). Between two sweeps the cache can exceed its limit.
//
// Thread-safe. After a fork, the child continues with the parent's counters and remembers its warnings.
#pragma once

#include <kiln/jit/cache/entry.h>
#include <kiln/jit/cache/folder.h>
#include <kiln/jit/cache/hash.h>
#include <kiln/jit/cache/sweep.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace kiln::cache {

struct Limits {
  std::uint64_t bytes = std::uint64_t{2} << 30; // of all entries together; 0 turns the cache off
  std::chrono::seconds sweep_interval = std::chrono::hours(1);
  std::chrono::seconds touch_after =
      std::chrono::hours(1); // hits update "last used" only if it is older than this
};

struct Stats { // counts since this object was made
  std::uint64_t hits = 0;
  std::uint64_t misses = 0; // includes bad entries
  std::uint64_t bad_entries = 0;
  std::uint64_t stores = 0;
  std::uint64_t failed_stores = 0;
  std::uint64_t evicted = 0;
};

struct ListedEntry {
  Key key;
  Entry entry;
  std::string problem; // empty if the entry looks right; the checksum is not verified
};

enum class BadEntries { keep, remove };

struct VerifiedEntry {
  Key key;
  std::string kernel;  // empty for a bad entry
  std::string problem; // empty if the entry is right
  bool removed = false;
};

class DiskCache {
public:
  using WarningHandler = std::function<void(std::string_view)>;

  // Does not access the disk yet. An empty path means that the cache is off.
  explicit DiskCache(std::filesystem::path folder, Limits limits = {});

  // The cache that kernels use: standard_folder(), with the limit KILN_CACHE_LIMIT. The first call reads
  // both. It lives until the process ends.
  static DiskCache& standard();

  // The payload that was stored last under the key, or nothing.
  std::optional<std::vector<char>> load(const Key& key) noexcept;
  void store(const Key& key, std::span<const char> payload, const Metadata& metadata) noexcept;

  // For the `kiln` command and for tests. A missing or refused folder has no entries.
  std::vector<ListedEntry> list();                   // most recently used first
  std::vector<VerifiedEntry> verify(BadEntries bad); // reads every byte
  SweepReport clear();
  SweepReport sweep_now();

  Stats stats() const;
  const Limits& limits() const { return limits_; }
  const std::filesystem::path& folder() const { return path_; }

  // Sets the function that receives warnings, each one sentence without a newline. The default writes "kiln:
  // warning: ..." to stderr.
  void set_warning_handler(WarningHandler handler);

private:
  std::shared_ptr<const Folder> open(IfMissing if_missing);
  std::vector<char> load_or_throw(const Key& key, bool& found);
  void store_or_throw(const Key& key, std::span<const char> payload, const Metadata& metadata);
  std::optional<int> publish(const Key& key, std::span<const char> payload, const Metadata& metadata);
  std::vector<Key> keys(const Folder& folder) const;
  void warn(const std::string& message);
  void warn_bad_entry(const Key& key, const std::string& problem);

  std::filesystem::path path_;
  Limits limits_;
  std::atomic<bool> off_;
  bool warned_of_passing_ = false; // guarded by mutex_
  std::atomic<bool> stores_off_ = false;
  std::atomic<std::uint64_t> hits_ = 0, misses_ = 0, bad_entries_ = 0, stores_ = 0, failed_stores_ = 0,
                             evicted_ = 0;

  std::mutex mutex_; // guards the members below
  std::shared_ptr<const Folder> folder_;
  std::unordered_set<Key> warned_;
  WarningHandler handler_;
};

} // namespace kiln::cache
