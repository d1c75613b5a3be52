// A wisdom file: the configs that an application ships with, as text that may be checked in.
//
//   {"kiln_wisdom":1,"records":[
//   {"v":1,"key":{"kernel":"matmul",...},"tools":{...},"config":"BM=64,BN=64","status":"ok","seconds":1e-3},
//   ...
//   ]}
//
// A record in it is a record line without its checksum, so that the file may be edited and formatted at will.
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
  std::size_t bad = 0;    // that are no records, or not of an ok config
  std::size_t future = 0; // of a later version of Kiln
  std::string problem;    // why there are none at all; empty if the file is fine
};

bool looks_like_wisdom(std::string_view text);
Wisdom read_wisdom(std::string_view text);
// Total too: what cannot be read is a problem in words.
Wisdom read_wisdom_file(const std::filesystem::path& path);
std::string wisdom_text(const std::vector<std::shared_ptr<const Record>>& records);

} // namespace kiln::tune
