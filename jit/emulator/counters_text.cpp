// Prints counters as tables and as JSON.
#include "counters.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::emulator {

namespace {

std::string number(std::uint64_t n) { // 1,234,567
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string bytes_text(std::uint64_t n) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  auto v = static_cast<double>(n);
  int unit = 0;
  while (v >= 1024 && unit < 3)
    v /= 1024, ++unit;
  return unit ? fmt::format("{:.1f} {}", v, units[unit]) : fmt::format("{} B", n);
}

void space(std::string& text, const char* name, const SpaceCounts& s, const std::string& more) {
  if (!s.requests) return;
  text += fmt::format("  {:<18} {:>13} requests, {} read, {} written{}\n", name, number(s.requests),
                      bytes_text(s.read_bytes), bytes_text(s.written_bytes), more);
}

void kernel_text(std::string& text, const KernelCounts& k) {
  const Counts& c = k.all;
  text += fmt::format("kernel {}: {} {}, {} blocks\n", k.kernel, number(k.launches),
                      k.launches == 1 ? "launch" : "launches", number(k.blocks));
  text += fmt::format("  {:<18} {:>13} of warps, {} of lanes: {:.1f} lanes each\n", "instructions",
                      number(c.warp_instructions), number(c.lane_instructions), c.lanes_per_instruction());
  for (std::size_t i = 0; i < instruction_classes; ++i)
    if (c.warps_by_class[i])
      text += fmt::format("    {:<16} {:>13} of warps\n", name_of(static_cast<InstructionClass>(i)),
                          number(c.warps_by_class[i]));
  space(text, "global memory", c.global,
        fmt::format("; {} sectors, {:.2f} a request (ideal {:.2f})", number(c.sectors),
                    c.sectors_per_request(),
                    static_cast<double>(c.ideal_sectors) /
                        static_cast<double>(std::max<std::uint64_t>(c.global.requests, 1))));
  space(text, "shared memory", c.shared,
        fmt::format("; {} wavefronts, {} bank conflicts", number(c.wavefronts), number(c.bank_conflicts)));
  space(text, "local memory", c.local, "");
  space(text, "constants", c.constant, "");
  if (c.tensor_instructions)
    text += fmt::format("  {:<18} {:>13} instructions, {} operations\n", "tensor cores",
                        number(c.tensor_instructions), number(c.tensor_operations));
  if (c.async_copies)
    text += fmt::format("  {:<18} {:>13} issued, {}; at most {} stages and {} of a warp under way\n",
                        "async copies", number(c.async_copies), bytes_text(c.async_bytes), c.most_stages,
                        bytes_text(c.most_async_bytes));
  if (k.lines.empty()) return;
  text += fmt::format("  {:<32} {:>12} {:>6} {:>10} {:>9} {:>11} {:>10} {:>12}\n", "line", "instructions",
                      "lanes", "sectors", "a request", "wavefronts", "conflicts", "tensor ops");
  for (const LineCounts& line : k.lines) {
    const Counts& l = line.counts;
    auto shown = [](std::uint64_t n) { return n ? number(n) : std::string("-"); };
    std::string place = line.place;
    if (place.size() > 32) place = "..." + place.substr(place.size() - 29);
    text += fmt::format("  {:<32} {:>12} {:>6.1f} {:>10} {:>9} {:>11} {:>10} {:>12}\n", place,
                        number(l.warp_instructions), l.lanes_per_instruction(), shown(l.sectors),
                        l.global.requests ? fmt::format("{:.2f}", l.sectors_per_request()) : "-",
                        shown(l.wavefronts), shown(l.bank_conflicts), shown(l.tensor_operations));
  }
}

nlohmann::ordered_json json_of(const SpaceCounts& s) {
  return {{"requests", s.requests}, {"read_bytes", s.read_bytes}, {"written_bytes", s.written_bytes}};
}

nlohmann::ordered_json json_of(const Counts& c) {
  nlohmann::ordered_json json = {{"warp_instructions", c.warp_instructions},
                                 {"lane_instructions", c.lane_instructions}};
  auto classes = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < instruction_classes; ++i)
    if (c.warps_by_class[i])
      classes[name_of(static_cast<InstructionClass>(i))] = {{"warps", c.warps_by_class[i]},
                                                            {"lanes", c.lanes_by_class[i]}};
  json["classes"] = classes;
  json["global"] = json_of(c.global);
  json["global"]["sectors"] = c.sectors;
  json["global"]["ideal_sectors"] = c.ideal_sectors;
  json["global"]["sectors_per_request"] = c.sectors_per_request();
  json["shared"] = json_of(c.shared);
  json["shared"]["wavefronts"] = c.wavefronts;
  json["shared"]["bank_conflicts"] = c.bank_conflicts;
  json["local"] = json_of(c.local);
  json["constant"] = json_of(c.constant);
  json["tensor"] = {{"instructions", c.tensor_instructions}, {"operations", c.tensor_operations}};
  json["asynchronous"] = {{"copies", c.async_copies},
                          {"bytes", c.async_bytes},
                          {"most_stages", c.most_stages},
                          {"most_bytes", c.most_async_bytes}};
  return json;
}

} // namespace

std::string text_of(const std::vector<KernelCounts>& kernels) {
  std::string text;
  for (const KernelCounts& k : kernels)
    kernel_text(text, k);
  return text;
}

std::string json_of(const std::vector<KernelCounts>& kernels) {
  auto all = nlohmann::ordered_json::array();
  for (const KernelCounts& k : kernels) {
    nlohmann::ordered_json json = {
        {"kernel", k.kernel}, {"launches", k.launches}, {"blocks", k.blocks}, {"counts", json_of(k.all)}};
    json["lines"] = nlohmann::ordered_json::array();
    for (const LineCounts& l : k.lines)
      json["lines"].push_back({{"place", l.place}, {"counts", json_of(l.counts)}});
    all.push_back(std::move(json));
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace kiln::emulator
