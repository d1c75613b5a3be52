// Defines one row of bench_peers: the times of Kiln and of the contenders that alternated with it.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace benchmarks {

enum class Role : std::uint8_t {
  peer,        // does the same work; the ratio compares Kiln with the fastest peer
  information, // has an advantage, such as operands that were packed before the timing; never the best peer
  limit,       // a copy loop that moves as many bytes, or a loop of as many multiply-adds in registers
};

struct Time {
  std::string name;
  Role role = Role::peer;
  double seconds = 0;
};

struct Row {
  std::string group; // the group's name for --only
  std::string mean;  // the line of the summary that includes this row; empty: none
  std::string name, dtype;
  int threads = 1;
  double seconds = 0; // Kiln's time
  std::vector<Time> others;
  double rate = 0; // Kiln's rate, in `unit`
  std::string unit;
  std::string limit;      // "FMA", "memory" or "copy"
  double limit_share = 0; // the limit's time divided by Kiln's; 0: not compared
  double element_ns = 0;  // nanoseconds for an element, times the number of threads; 0: not reported
  double error = 0;       // the relative error of Kiln's result

  const Time* best_peer() const {
    const Time* best = nullptr;
    for (const Time& t : others)
      if (t.role == Role::peer && t.seconds > 0 && (!best || t.seconds < best->seconds)) best = &t;
    return best;
  }
  // The best peer's time divided by Kiln's; 0 without a peer.
  double ratio() const { return best_peer() ? best_peer()->seconds / seconds : 0; }
};

inline const char* role_name(Role role) {
  return role == Role::peer ? "peer" : role == Role::limit ? "limit" : "information";
}

inline nlohmann::ordered_json to_json(const Row& r) {
  nlohmann::ordered_json others = nlohmann::ordered_json::array();
  for (const Time& t : r.others)
    others.push_back({{"name", t.name}, {"role", role_name(t.role)}, {"seconds", t.seconds}});
  return {{"group", r.group},
          {"mean", r.mean},
          {"name", r.name},
          {"dtype", r.dtype},
          {"threads", r.threads},
          {"seconds", r.seconds},
          {"rate", r.rate},
          {"unit", r.unit},
          {"others", others},
          {"best_peer", r.best_peer() ? r.best_peer()->name : ""},
          {"ratio", r.ratio()},
          {"limit", r.limit},
          {"limit_share", r.limit_share},
          {"element_ns", r.element_ns},
          {"error", r.error}};
}

inline Row row_from_json(const nlohmann::ordered_json& j) {
  Row r{j.at("group"),
        j.at("mean"),
        j.at("name"),
        j.at("dtype"),
        j.at("threads"),
        j.at("seconds"),
        {},
        j.at("rate"),
        j.at("unit"),
        j.at("limit"),
        j.at("limit_share"),
        j.at("element_ns"),
        j.at("error")};
  for (const auto& t : j.at("others"))
    for (Role role : {Role::peer, Role::information, Role::limit})
      if (t.at("role") == role_name(role)) r.others.push_back({t.at("name"), role, t.at("seconds")});
  return r;
}

} // namespace benchmarks
