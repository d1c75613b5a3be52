// One line of bench_peers' table: what Kiln took, and what the others took in turns with it.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace benchmarks {

enum class Role : std::uint8_t {
  peer,        // does the same work: the ratio is to the fastest of them
  information, // has an advantage, operands packed outside the timing say: shown, and never the best peer
  limit,       // a copy loop that moves as many bytes, or as many multiply-adds in registers
};

struct Time {
  std::string name;
  Role role = Role::peer;
  double seconds = 0;
};

struct Row {
  std::string group; // what --only picks
  std::string mean;  // the line of the summary that it is part of; empty: none
  std::string name, dtype;
  int threads = 1;
  double seconds = 0; // Kiln
  std::vector<Time> others;
  double rate = 0; // of Kiln
  std::string unit;
  std::string limit; // what cannot be passed, and which share of it Kiln reaches; 0: not compared
  double limit_share = 0;
  double element_ns = 0; // of one core for each element; 0: of no interest
  double error = 0;      // relative, of Kiln's result

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
