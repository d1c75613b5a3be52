// Formats the output of the `kiln cache` commands.
#include <kiln/jit/cache/commands.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units))
    value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string time_text(std::int64_t seconds) {
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm parts;
  char text[64];
  if (!localtime_r(&time, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts) == 0)
    return "?";
  return text;
}

// Replaces control characters: an entry is a file, and text in it must not control the terminal.
std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string entries_text(std::uint64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "entry" : "entries");
}

} // namespace

CommandResult ls_command(DiskCache& cache) {
  const std::vector<ListedEntry> entries = cache.list();
  std::uint64_t total = 0;
  std::size_t kernel_width = 6, target_width = 6;
  for (const ListedEntry& e : entries) {
    total += e.entry.file_bytes;
    kernel_width = std::max(kernel_width, std::min<std::size_t>(e.entry.metadata.kernel.size(), 40));
    target_width = std::max(target_width, std::min<std::size_t>(e.entry.metadata.target.size(), 30));
  }
  CommandResult result;
  auto out = std::back_inserter(result.text);
  fmt::format_to(out, "{}: {}, {} of at most {}\n", cache.folder().string(), entries_text(entries.size()),
                 size_text(total), size_text(cache.limits().bytes));
  if (entries.empty()) return result;
  fmt::format_to(out, "{:<32}  {:<{}}  {:<{}}  {:>10}  {:<16}  {}\n", "key", "kernel", kernel_width, "target",
                 target_width, "size", "last used", "config");
  for (const ListedEntry& e : entries) {
    if (!e.problem.empty()) {
      fmt::format_to(out, "{}  not usable: {}\n", to_string(e.key), e.problem);
      continue;
    }
    fmt::format_to(out, "{}  {:<{}}  {:<{}}  {:>10}  {:<16}  {}\n", to_string(e.key),
                   printable(e.entry.metadata.kernel), kernel_width, printable(e.entry.metadata.target),
                   target_width, size_text(e.entry.payload_bytes), time_text(e.entry.last_used),
                   printable(e.entry.metadata.config));
  }
  return result;
}

CommandResult clear_command(DiskCache& cache) {
  const SweepReport report = cache.clear();
  CommandResult result;
  result.text = fmt::format("{}: removed {}, {}\n", cache.folder().string(),
                            entries_text(report.entries_removed), size_text(report.bytes_removed));
  if (report.entries_left != 0) {
    result.text += fmt::format("{} could not be removed\n", entries_text(report.entries_left));
    result.exit_code = 1;
  }
  return result;
}

CommandResult verify_command(DiskCache& cache, BadEntries bad) {
  const std::vector<VerifiedEntry> entries = cache.verify(bad);
  CommandResult result;
  std::uint64_t bad_count = 0, removed = 0;
  for (const VerifiedEntry& entry : entries) {
    if (entry.problem.empty()) continue;
    ++bad_count;
    removed += entry.removed;
    result.text +=
        fmt::format("{}  {}{}\n", to_string(entry.key), entry.problem, entry.removed ? "; removed" : "");
  }
  result.text += fmt::format("{}: {}, {} bad, {} removed\n", cache.folder().string(),
                             entries_text(entries.size()), bad_count, removed);
  result.exit_code = removed < bad_count ? 1 : 0;
  return result;
}

} // namespace kiln::cache
