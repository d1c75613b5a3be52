// Converts records to lines of JSON with a checksum at the end, and back.
//
//   {"v":1,"key":{...},"tools":{...},"time":...,"config":"BM=64,BN=64","status":"ok",...,"crc":"5d2e11aa"}
//
// The checksum covers everything before it (XXH3, 32 bits) and detects lines that are incomplete or were
// interleaved by two writers. A line of a later version has its checksum at the same place; it is kept but
// not read. Unknown members are skipped. Readers accept any text without throwing, unless memory is
// exhausted.
#pragma once

#include <kiln/autotune/records/record.h>

#include <string>
#include <string_view>

namespace kiln::tune {

inline constexpr int record_version = 1;
inline constexpr std::size_t most_line_bytes = 64 << 10;

// Ends with a newline. Empty if the record does not fit into most_line_bytes.
std::string to_line(const Record& record);
// Returns the JSON without checksum and newline, for files that people edit.
std::string to_json(const Record& record);

enum class LineState { good, future, bad };

// Checks the checksum of `line`, which has no newline, and reads only the version. Equal lines have equal ids
// and different lines different ones, so that merging can compare ids. A bad line has no id.
LineState check_line(std::string_view line, cache::Key* id = nullptr);

// Reads lines that check_line accepted. Caches the keys that it has read, since they repeat. Not thread-safe.
class LineReader {
public:
  // Returns null if the line is not valid JSON or lacks a kernel or a config.
  std::shared_ptr<Record> read(std::string_view line);
  bool read_into(std::string_view line, Record& record);

private:
  struct KnownKey {
    std::string text; // the beginning of a line, up to and including its tools
    std::shared_ptr<const RecordKey> key;
  };
  std::vector<KnownKey> known_; // most recently used first
};

} // namespace kiln::tune
