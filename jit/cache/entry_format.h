// Defines the layout of an entry's header, for the files that read and write it.
#pragma once

#include <kiln/jit/cache/entry.h>

#include <cstddef>

namespace kiln::cache {

// Numbers are in the byte order of the machine. Keys contain the target, so machines with different byte
// orders never share entries, and a foreign file fails the check of its version.
struct EntryHeader {
  char magic[8];
  std::uint32_t format_version;
  std::uint32_t reserved;
  std::uint64_t key_high;
  std::uint64_t key_low;
  std::uint64_t metadata_bytes;
  std::uint64_t payload_bytes;
  std::int64_t created;
  std::uint64_t checksum_high; // of all bytes except the two checksum fields, which come last
  std::uint64_t checksum_low;
};
static_assert(sizeof(EntryHeader) == 72, "the header has no padding and its size is part of the format");
static_assert(offsetof(EntryHeader, checksum_high) + 16 == sizeof(EntryHeader), "the checksum comes last");

inline constexpr char entry_magic[8] = {'K', 'i', 'l', 'n', 'C', 'o', 'd', 'e'};
inline constexpr std::uint32_t most_text_bytes = 16 << 10;
inline constexpr std::uint64_t most_metadata_bytes = 5 * (most_text_bytes + sizeof(std::uint32_t));
inline constexpr std::uint64_t most_payload_bytes = std::uint64_t{1} << 30;

inline Key checksum_of(const EntryHeader& header, std::span<const char> metadata,
                       std::span<const char> payload) {
  const std::span<const char> checked(reinterpret_cast<const char*>(&header),
                                      offsetof(EntryHeader, checksum_high));
  return checksum({checked, metadata, payload});
}

} // namespace kiln::cache
