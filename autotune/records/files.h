// The few things that a record store does with files: it reads them whole, publishes them by rename, and
// locks.
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

// A segment of this size is full: the next record begins another.
inline constexpr std::size_t full_segment_bytes = std::size_t{64} << 20;

// A descriptor that closes itself.
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

// A folder inside of an open one, made (mode 0700) if it is missing and `create` says so. Null otherwise, and
// for symbolic links, with errno.
std::shared_ptr<const cache::Folder> open_subfolder(const cache::Folder& parent, const std::string& name,
                                                    cache::IfMissing if_missing);
// Those of its names that are folders, sorted.
std::vector<std::string> subfolders(const cache::Folder& folder);

// Opens a regular file to read. Never waits, never follows a symbolic link; not open otherwise.
File open_regular(const cache::Folder& folder, const std::string& name, std::uint64_t* size = nullptr);
// Its bytes from `offset` on; nothing if there is no such file, it cannot be read, or has more than `most`.
std::optional<std::string> read_file(const cache::Folder& folder, const std::string& name,
                                     std::uint64_t offset = 0, std::uint64_t most = UINT64_MAX);

struct LinesRead {
  bool opened = false;    // there is such a file
  std::uint64_t next = 0; // the offset after the last newline
  bool torn = false;      // bytes follow it
};
// Calls take(line) for each line from `offset` on, newline excluded, in pieces of at most `most` bytes: a
// line that is longer comes in several. With `last`, also for what follows the last newline.
LinesRead for_each_line(const cache::Folder& folder, const std::string& name,
                        const std::function<void(std::string_view line)>& take, std::uint64_t offset = 0,
                        bool last = false, std::size_t most = 1 << 20);

// Appends with one write(2). 0 or the errno of what failed; `written` says how much of it is there.
int write_once(int file, std::string_view bytes, std::size_t& written);
// Writes a temporary file, syncs it and renames it: readers see the old bytes or the new ones. 0 or an errno.
int publish_file(const cache::Folder& folder, const std::string& name, std::string_view bytes);
bool is_temporary(std::string_view name);

// Whether `bytes` more at `offset` exceed the process's limit of file size, whose signal would kill it.
bool exceeds_file_limit(std::uint64_t offset, std::size_t bytes);

// Locks the whole file for its open description, without waiting; false if another one holds it. The lock
// goes with the descriptor, and so with the process.
bool try_lock(int file);
// The same, and waits until `seconds` are over.
bool lock_within(int file, double seconds);

// Letters, digits, '.', '_' and '-' of the text, '_' for others, at most 64: for names of files.
std::string file_word(std::string_view text);
// "host-pid-nanoseconds-count": no other segment of any machine has it.
std::string unique_name();

} // namespace kiln::tune
