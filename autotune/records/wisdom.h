// Reads and writes wisdom files: text files with configs, which can be checked in and shipped.
//
//   {"kiln_wisdom":1,"records":[
//   {"v":1,"key":{"kernel":"matmul",...},"tools":{...},"config":"BM=64,BN=64","status":"ok","seconds":1e-3},
//   ...
//   ]}
//
// A record in it is a record line without its checksum, so that the file can be edited and formatted.
#pragma once

#include <kiln/autotune/records/record.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

inline constexpr int wisdom_version = 1;

struct Wisdom {
  std::vector<std::shared_ptr<const Record>> records;
  std::size_t bad = 0;    // not valid records, or not of a successful config
  std::size_t future = 0; // from a later version of Kiln
  std::string problem;    // why the file has no records at all; empty if it is valid
};

bool looks_like_wisdom(std::string_view text);
Wisdom read_wisdom(std::string_view text);
// Does not throw either: if the file cannot be read, `problem` gives the reason.
Wisdom read_wisdom_file(const std::filesystem::path& path);
std::string wisdom_text(const std::vector<std::shared_ptr<const Record>>& records);

} // namespace kiln::tune
