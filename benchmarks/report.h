// Prints the rows of a comparison with peers on a GPU as a table, and writes them as JSON.
#pragma once

#include "numbers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace benchmarks {

struct Row {
  std::string name, peer;
  double seconds = 0, peer_seconds = 0; // a peer's 0 means that there is no peer
  double rate = 0;                      // Kiln's rate in GB/s or GFLOP/s
  std::string unit;
  double limit_share = 0; // 0 means that the row was not compared with a limit
};

inline void print_table(const std::vector<Row>& rows) {
  fmt::print("\n{:<42} {:>10} {:>18} {:>32} {:>6} {:>10}\n", "", "Kiln", "", "peer", "ratio", "of limit");
  for (const Row& r : rows) {
    fmt::print("{:<42} {:>10}", r.name, time_text(r.seconds));
    fmt::print(" {:>18}", r.rate > 0 ? fmt::format("{:.1f} {:<7}", r.rate, r.unit) : "");
    if (r.peer_seconds > 0)
      fmt::print(" {:>21} {:>10} {:>6.2f}", r.peer, time_text(r.peer_seconds), r.peer_seconds / r.seconds);
    if (r.limit_share > 0) fmt::print(" {:>{}.0f} %", r.limit_share * 100, r.peer_seconds > 0 ? 8 : 48);
    fmt::print("\n");
  }
}

// Writes the members of `header`, followed by the array "rows". Returns false if the file cannot be written.
inline bool write_json(const std::string& path, nlohmann::ordered_json header, const std::vector<Row>& rows) {
  header["rows"] = nlohmann::ordered_json::array();
  for (const Row& r : rows)
    header["rows"].push_back({{"name", r.name},
                              {"seconds", r.seconds},
                              {"rate", r.rate},
                              {"unit", r.unit},
                              {"peer", r.peer},
                              {"peer_seconds", r.peer_seconds},
                              {"limit_share", r.limit_share}});
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return false;
  fmt::print(file, "{}\n", header.dump(2));
  return std::fclose(file) == 0;
}

} // namespace benchmarks
