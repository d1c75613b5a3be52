// One entry of the disk cache: its file format, and reading and publishing it.
//
//   header    magic, format version, key, sizes, time of creation, checksum
//   metadata  kernel, config, target, versions of Kiln and LLVM: length-prefixed texts for `kiln cache ls`
//   payload   what was stored
//
// The checksum covers all other bytes, so any damage is noticed. A file under an entry's name is always
// complete: it is written under a temporary name and renamed. There is no fsync: after a power cut a file may
// be short or hold zeros, and the checksum tells. A process killed in between leaves its temporary file,
// which a sweep removes.
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

// What an entry says about itself. Texts beyond 16 KiB are cut off.
struct Metadata {
  std::string kernel; // its name
  std::string config; // as the user would write it
  std::string target; // "x86-64 znver4", "sm_90a"
};

struct Entry {
  Metadata metadata;
  std::string kiln_version;
  std::string llvm_version;
  std::int64_t created = 0;   // seconds since 1970
  std::int64_t last_used = 0; // likewise
  std::uint64_t payload_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::vector<char> payload; // empty if only the metadata was asked for
};

enum class Outcome { found, missing, bad };

struct ReadResult {
  Outcome outcome = Outcome::missing;
  Entry entry;
  std::string problem; // of a bad entry
};

enum class Extent { metadata, everything }; // the checksum is compared only when everything is read

std::string entry_file_name(const Key& key);
std::optional<Key> key_of_entry_file(std::string_view name); // nothing if this is not an entry's name

// Does not throw but for lack of memory. Never waits: a pipe or device in an entry's place is a bad entry.
ReadResult read_entry(int folder, const Key& key, Extent extent);

// Returns 0 or the errno of what failed; then nothing is published and the temporary file is gone.
int publish_entry(int folder, const Key& key, std::span<const char> payload, const Metadata& metadata);

// Whether the name is that of a temporary file of some process.
bool is_temporary_file(std::string_view name);
// Whether a temporary file's writer is surely gone: dead for ten minutes, or, where one cannot tell because
// it runs on another machine or in another container, silent for a day.
bool is_abandoned(std::string_view name, std::int64_t age_in_seconds);

} // namespace kiln::cache
