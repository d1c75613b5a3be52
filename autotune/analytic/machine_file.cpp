// Reads and writes machines as JSON.
#include <kiln/autotune/analytic/machine_file.h>

#include <kiln/autotune/records/files.h>
#include <kiln/autotune/records/key.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace kiln::tune {

namespace {

// Calls `f` with the name in the file and the value of every rate.
template <class M, class F> void each_rate(M& m, F&& f) {
  f("threads", m.threads), f("launch", m.launch), f("program", m.program), f("memory", m.memory);
  f("last_cache", m.last_cache), f("private_cache", m.private_cache);
  f("last_cache_bytes", m.last_cache_bytes), f("private_cache_bytes", m.private_cache_bytes);
  f("f32", m.f32), f("f64", m.f64), f("bf16", m.bf16), f("i8", m.i8), f("elementwise", m.elementwise);
  f("registers", m.registers), f("shared_bytes", m.shared_bytes), f("warps", m.warps);
}

constexpr int file_version = 2;

// The beginning of the name is for readers; the hash distinguishes devices that differ in anything. Boards
// with the same chip may differ in their clocks.
std::string file_name(Device device) {
  const DeviceProperties& p = device.properties();
  std::string silicon = silicon_of(p);
  if (p.sm != 0) silicon += fmt::format(":{}:{}", p.name, p.clock_hz);
  return file_word(silicon.substr(0, 40)) + "-" + to_string(cache::KeyBuilder().add(silicon).key()) + ".json";
}

// Returns the folder of all devices' files inside the records' folder; null if it is missing or rejected, as
// for records.
std::shared_ptr<const cache::Folder> device_folder(const std::filesystem::path& folder,
                                                   cache::IfMissing if_missing) {
  if (folder.empty()) return nullptr;
  const cache::OpenFolder open = cache::open_folder(folder, if_missing);
  return open.folder ? open_subfolder(*open.folder, "dev", if_missing) : nullptr;
}

std::optional<Machine> read_machine(const cache::Folder& folder, const std::string& name, Device device) {
  constexpr std::uint64_t most_bytes = 1 << 16;
  const auto text = read_file(folder, name, 0, most_bytes);
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, false);
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (version == json.end() || *version != file_version) return std::nullopt;
  Machine m = assumed_machine(device);
  bool complete = true;
  each_rate(m, [&](const char* rate, auto& value) {
    auto at = json.find(rate);
    complete = complete && at != json.end() && at->is_number() && at->template get<double>() >= 0;
    if (complete) value = at->template get<std::remove_cvref_t<decltype(value)>>();
  });
  m.measured = true;
  return complete ? std::optional(m) : std::nullopt;
}

std::string text_of(const Machine& m) {
  nlohmann::ordered_json json{{"version", file_version}};
  each_rate(m, [&](const char* rate, auto& value) { json[rate] = value; });
  return json.dump(2) + '\n';
}

} // namespace

std::optional<Machine> kept_machine(Device device, const std::filesystem::path& folder) {
  const auto known = device_folder(folder, cache::IfMissing::leave);
  return known ? read_machine(*known, file_name(device), device) : std::nullopt;
}

void keep_machine(const Machine& machine, Device device, const std::filesystem::path& folder) {
  if (const auto kept = device_folder(folder, cache::IfMissing::create))
    publish_file(*kept, file_name(device), text_of(machine)); // if that fails, it is measured again next time
}

void forget_machine(Device device, const std::filesystem::path& folder) {
  if (const auto known = device_folder(folder, cache::IfMissing::leave))
    unlinkat(known->descriptor(), file_name(device).c_str(), 0);
}

} // namespace kiln::tune
