// Reads and writes the JSON files of bench_peers.
#include "result_file.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <stdexcept>

namespace benchmarks {
namespace {

using nlohmann::ordered_json;

Run read_run(const std::filesystem::path& path) {
  try {
    const auto json = ordered_json::parse(std::ifstream(path));
    Run run;
    for (const auto& m : json.at("machines"))
      run.machines.push_back({m.at("threads"), m.at("isa"), m.at("copy_gbs"), m.at("fma_gflops")});
    for (const auto& row : json.at("rows"))
      run.rows.push_back(row_from_json(row));
    return run;
  } catch (const ordered_json::exception& e) {
    throw std::runtime_error(fmt::format("{} is not a result of bench_peers: {}", path.string(), e.what()));
  }
}

// "zen-4" becomes "Zen 4".
std::string title_of(std::string cpu) {
  bool first_letter = true;
  for (char& c : cpu) {
    if (first_letter) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    first_letter = c == '-';
    if (first_letter) c = ' ';
  }
  return cpu;
}

} // namespace

bool write_result_file(const std::string& path, const ordered_json& object) {
  std::ofstream out(path);
  const char* before = "{";
  for (const auto& [key, value] : object.items()) {
    out << before << "\n  " << ordered_json(key).dump() << ": ";
    before = ",";
    if (!value.is_array()) {
      out << value.dump();
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i)
      out << (i ? ",\n    " : "[\n    ") << value[i].dump();
    out << (value.empty() ? "[]" : "\n  ]");
  }
  out << "\n}\n";
  out.close();
  return !out.fail();
}

std::vector<RunsOnCpu> newest_runs(const std::filesystem::path& folder) {
  static const std::regex name_of_run(R"((\d{4}-\d\d-\d\d)-(.+)-peers-(\d{1,4})\.json)");
  std::map<std::string, std::map<std::string, std::map<int, std::filesystem::path>>>
      files; // CPU, date, number
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (std::smatch part; std::regex_match(name, part, name_of_run))
      files[title_of(part[2])][part[1]][std::stoi(part[3])] = entry.path();
  }
  std::vector<RunsOnCpu> all;
  for (const auto& [cpu, dates] : files) {
    const auto& [date, numbers] = *dates.rbegin();
    RunsOnCpu newest{cpu, date, {}};
    auto file = numbers.begin();
    if (numbers.size() > 2) std::advance(file, numbers.size() - 2);
    for (; file != numbers.end(); ++file)
      newest.runs.push_back(read_run(file->second));
    all.push_back(std::move(newest));
  }
  return all;
}

} // namespace benchmarks
