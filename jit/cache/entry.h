// Reads and publishes the files of the kernel cache, one for each entry, and documents their format.
//
//   header    magic, format version, key, sizes, time of creation, checksum
//   metadata  kernel, config, target, versions of Kiln and LLVM: texts with lengths, for `kiln cache ls`
//   payload   what was stored
//
// The checksum covers all other bytes, so any damage is detected. A file with the name of an entry is always
// complete, because it is written under a temporary name and then renamed. There is no fsync: after a power
// failure a file may be short or contain zeros, which the checksum detects. A process that is killed while it
// writes leaves its temporary file, which a sweep removes.
#pragma once

#include <kiln/jit/cache/hash.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::cache {

inline constexpr std::uint32_t entry_format_version = 1;

// Describes an entry. Texts are cut after 16 KiB.
struct Metadata {
  std::string kernel; // name of the kernel
  std::string config; // in the form in which users write it
  std::string target; // "x86-64 znver4", "sm_90a"
};

struct Entry {
  Metadata metadata;
  std::string kiln_version;
  std::string llvm_version;
  std::int64_t created = 0;   // seconds since 1970
  std::int64_t last_used = 0; // seconds since 1970
  std::uint64_t payload_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::vector<char> payload; // empty if only the metadata was read
};

enum class Outcome { found, missing, bad };

struct ReadResult {
  Outcome outcome = Outcome::missing;
  Entry entry;
  std::string problem; // what is wrong with a bad entry
};

enum class Extent { metadata, everything }; // the checksum is verified only if everything is read

std::string entry_file_name(const Key& key);
std::optional<Key> key_of_entry_file(std::string_view name); // nothing if this is not the name of an entry

// Throws only std::bad_alloc. Never blocks: a pipe or device in place of an entry counts as a bad entry.
ReadResult read_entry(int folder, const Key& key, Extent extent);

// Returns 0, or the errno of a failure. After a failure nothing is published and the temporary file is
// removed.
int publish_entry(int folder, const Key& key, std::span<const char> payload, const Metadata& metadata);

// Whether this is the name of a temporary file of any process.
bool is_temporary_file(std::string_view name);
// Whether the process that wrote a temporary file is certainly gone: it has ended and the file is ten minutes
// old, or, if the process ran on another machine or in another container, the file has not changed for a day.
bool is_abandoned(std::string_view name, std::int64_t age_in_seconds);

} // namespace kiln::cache
