// A record as one line of JSON with a checksum at its end, and back.
//
//   {"v":1,"key":{...},"tools":{...},"time":...,"config":"BM=64,BN=64","status":"ok",...,"crc":"5d2e11aa"}
//
// The checksum covers everything before it (XXH3, 32 bits), so that a line that was torn, or that two
// writers mixed, is known. A line of a later version has a checksum at the same place: it is kept, and not
// read. Members that are not known are skipped. All readers are total: no text makes them throw but for lack
// of memory.
#pragma once

#include <kiln/autotune/records/record.h>

#include <string>
#include <string_view>

namespace kiln::tune {

inline constexpr int record_version = 1;
inline constexpr std::size_t most_line_bytes = 64 << 10;

// Ends with a newline. Empty if the record does not fit in most_line_bytes.
std::string to_line(const Record& record);
// The same JSON without checksum and newline, for files that people edit.
std::string to_json(const Record& record);

enum class LineState { good, future, bad };

// `line` without its newline. Compares the checksum, reads no more than the version. Equal lines have equal
// ids, and others differ: what merging goes by. A bad line has none.
LineState check_line(std::string_view line, cache::Key* id = nullptr);

// Reads lines that check_line found good; keeps the keys that it met, since they repeat. One thread at a
// time.
class LineReader {
public:
  // Nothing if it lacks a kernel or a config, or is no JSON.
  std::shared_ptr<Record> read(std::string_view line);
  bool read_into(std::string_view line, Record& record);

private:
  struct KnownKey {
    std::string text; // a line's beginning, up to and with its tools
    std::shared_ptr<const RecordKey> key;
  };
  std::vector<KnownKey> known_; // most recently used first
};

} // namespace kiln::tune
