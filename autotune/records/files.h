// Provides the file operations of a record store: reading, publishing by rename, and locking.
#pragma once

#include <kiln/jit/cache/folder.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::tune {

// Segments of at least this size are full: the next record starts a new one.
inline constexpr std::size_t full_segment_bytes = std::size_t{64} << 20;

// A descriptor that is closed on destruction.
class File {
public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

private:
  int descriptor_ = -1;
};

// Opens a folder inside of an open one, and creates it (mode 0700) if it is missing and `if_missing` says so.
// Returns null, with errno set, if that fails or for symbolic links.
std::shared_ptr<const cache::Folder> open_subfolder(const cache::Folder& parent, const std::string& name,
                                                    cache::IfMissing if_missing);
// Returns the names of all subfolders, sorted.
std::vector<std::string> subfolders(const cache::Folder& folder);

// Opens a regular file for reading. Never blocks and never follows symbolic links; the result is empty on
// failure.
File open_regular(const cache::Folder& folder, const std::string& name, std::uint64_t* size = nullptr);
// Returns the bytes from `offset` on; nothing if the file does not exist, cannot be read, or has more than
// `most` bytes.
std::optional<std::string> read_file(const cache::Folder& folder, const std::string& name,
                                     std::uint64_t offset = 0, std::uint64_t most = UINT64_MAX);

struct LinesRead {
  bool opened = false;    // the file exists and was opened
  std::uint64_t next = 0; // the offset after the last newline
  bool torn = false;      // further bytes follow it
};
// Calls take(line) for each line from `offset` on, without the newline. Lines longer than `most` bytes come
// in several pieces. With `last`, also calls it for the text after the last newline.
LinesRead for_each_line(const cache::Folder& folder, const std::string& name,
                        const std::function<void(std::string_view line)>& take, std::uint64_t offset = 0,
                        bool last = false, std::size_t most = 1 << 20);

// Appends with one write(2). Returns 0 or the errno; `written` is the number of bytes written.
int write_once(int file, std::string_view bytes, std::size_t& written);
// Writes a temporary file, syncs it and renames it, so that readers see either the old bytes or the new ones.
// Returns 0 or the errno.
int publish_file(const cache::Folder& folder, const std::string& name, std::string_view bytes);
bool is_temporary(std::string_view name);

// Returns whether `bytes` more at `offset` would exceed the process's file size limit, whose signal kills it.
bool exceeds_file_limit(std::uint64_t offset, std::size_t bytes);

// Locks the whole file for its open file description, without waiting; returns false if another one holds the
// lock. The lock ends with the descriptor, and hence with the process.
bool try_lock(int file);
// Like try_lock, but waits for up to `seconds`.
bool lock_within(int file, double seconds);

// Replaces all characters except letters, digits, '.', '_' and '-' by '_', and keeps at most 64, for file
// names.
std::string file_word(std::string_view text);
// Returns "host-pid-nanoseconds-count", which is unique among the segments of all machines.
std::string unique_name();

} // namespace kiln::tune
