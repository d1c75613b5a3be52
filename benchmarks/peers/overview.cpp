// Averages the rows of each group, and lays the averages out as a markdown table.
#include "overview.h"

#include "benchmarks/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <set>

namespace benchmarks {
namespace {

struct TimeUnit {
  const char* name = nullptr; // none: the group is compared with peers
  double per_second = 0;
};
constexpr TimeUnit nanoseconds{"ns", 1e9}, milliseconds{"ms", 1e3};

struct Group {
  const char* title;
  const char* rows; // the `mean` of the group's rows, or what their names begin with
  // The limit of a number type assumes that the CPU has instructions for it. There is no share of it where
  // the CPU's instruction sets do not include this text.
  const char* isa = "";
  TimeUnit time = {}; // the cells hold times in this unit
};

constexpr Group groups[] = {
    {"f32 products, over 32 rows", "f32 matmul of more than 32 rows"},
    {"f32 products, up to 32 rows", "f32 matmul of at most 32 rows"},
    {"bf16 products, over 32 rows", "bf16 matmul of more than 32 rows", "bf16"},
    {"bf16 products, up to 32 rows", "bf16 matmul of at most 32 rows", "bf16"},
    {"i8 products, over 32 rows", "i8 matmul of more than 32 rows", "vnni"},
    {"i8 products, up to 32 rows", "i8 matmul of at most 32 rows", "vnni"},
    {"f32 attention", "f32 attention"},
    {"bf16 attention", "bf16 attention", "bf16"},
    {"softmax, from memory", "softmax, from memory"},
    {"softmax, in cache", "softmax, in cache"},
    {"layernorm, from memory", "layernorm, from memory"},
    {"layernorm, in cache", "layernorm, in cache"},
    {"rmsnorm, from memory", "rmsnorm, from memory"},
    {"rmsnorm, in cache", "rmsnorm, in cache"},
    {"chain of 5 operations", "chain of 5 operations"},
    {"gelu", "gelu"},
    {"launch an empty kernel, wait", "launch an empty kernel", "", nanoseconds},
    {"compile a matmul kernel", "compile a matmul kernel", "", milliseconds},
};

using Cells = std::vector<std::string>;
using Format = std::function<std::string(double)>;

// One number for each run; a 0 is a number that the run does not have.
std::string pair_text(std::vector<double> numbers, const Format& format) {
  constexpr double noticeable = 1.05;
  std::erase(numbers, 0.0);
  if (numbers.empty()) return "";
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  Cells texts;
  if (*most / *least < noticeable) {
    GeometricMean mean;
    for (double x : numbers)
      mean.add(x);
    texts = {format(mean.value())};
  } else {
    for (double x : numbers)
      if (auto text = format(x); texts.empty() || texts.back() != text) texts.push_back(text);
  }
  return fmt::format("{}", fmt::join(texts, "/"));
}

struct Average {
  double ratio = 0, share = 0, seconds = 0;
};

Average average(const Run& run, const Group& group, int threads) {
  GeometricMean ratio, share, seconds;
  for (const Row& r : run.rows) {
    if (r.threads != threads || (r.mean != group.rows && !r.name.starts_with(group.rows))) continue;
    seconds.add(r.seconds);
    if (r.ratio() > 0) ratio.add(r.ratio());
    if (r.limit_share > 0) share.add(r.limit_share);
  }
  return {ratio.value(), share.value(), seconds.value()};
}

bool has_isa(const Run& run, const char* part) {
  return std::all_of(run.machines.begin(), run.machines.end(),
                     [&](const Machine& m) { return m.isa.find(part) != std::string::npos; });
}

std::string ratio_text(double ratio) {
  constexpr double no_real_peer = 20; // a peer that slow has no code for the number type on this CPU
  return ratio > no_real_peer ? "> 20" : fmt::format("{:.2f}", ratio);
}

std::string cell(const std::vector<Run>& runs, const Group& group, int threads) {
  std::vector<double> ratios, shares, times;
  for (const Run& run : runs) {
    const Average a = average(run, group, threads);
    ratios.push_back(a.ratio), times.push_back(a.seconds);
    if (has_isa(run, group.isa)) shares.push_back(a.share);
  }
  if (group.time.name) {
    auto number = [&](double seconds) { return fmt::format("{:.0f}", seconds * group.time.per_second); };
    const std::string text = pair_text(times, number);
    return text.empty() ? "-" : fmt::format("{} {}", text, group.time.name);
  }
  const std::string ratio = pair_text(ratios, ratio_text);
  const std::string share = pair_text(shares, [](double x) { return fmt::format("{:.0f}", x * 100); });
  return (ratio.empty() ? "-" : ratio) + (share.empty() ? "" : fmt::format(", {} %", share));
}

std::string machine_cell(const std::vector<Run>& runs, double Machine::* number, int threads) {
  std::vector<double> numbers;
  for (const Run& run : runs)
    for (const Machine& m : run.machines)
      if (m.threads == threads) numbers.push_back(m.*number);
  const std::string text = pair_text(numbers, [](double x) { return fmt::format("{:.0f}", x); });
  return text.empty() ? "-" : text;
}

std::string markdown(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Cells& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  auto add = [&](const Cells& line) {
    for (std::size_t i = 0; i < line.size(); ++i)
      text += fmt::format("| {:<{}} ", line[i], widths[i]);
    text += "|\n";
  };
  add(lines.front());
  for (std::size_t width : widths)
    text += "|" + std::string(width + 2, '-');
  text += "|\n";
  for (std::size_t i = 1; i < lines.size(); ++i)
    add(lines[i]);
  return text;
}

} // namespace

std::string overview(const std::vector<RunsOnCpu>& cpus) {
  std::set<int> thread_counts;
  std::vector<Cells> lines{{"", "threads"}, {"measured on", ""}};
  for (const RunsOnCpu& on : cpus) {
    lines[0].push_back(on.cpu), lines[1].push_back(on.date);
    for (const Run& run : on.runs)
      for (const Machine& m : run.machines)
        thread_counts.insert(m.threads);
  }
  auto add = [&](const char* title, const std::function<std::string(const std::vector<Run>&, int)>& text) {
    for (int threads : thread_counts) {
      Cells line{title, std::to_string(threads)};
      for (const RunsOnCpu& on : cpus)
        line.push_back(text(on.runs, threads));
      lines.push_back(std::move(line));
    }
  };
  add("FMA peak, GFLOP/s",
      [](const auto& runs, int threads) { return machine_cell(runs, &Machine::fma_gflops, threads); });
  add("copy bandwidth, GB/s",
      [](const auto& runs, int threads) { return machine_cell(runs, &Machine::copy_gbs, threads); });
  for (const Group& group : groups)
    add(group.title, [&](const auto& runs, int threads) { return cell(runs, group, threads); });
  return markdown(lines);
}

} // namespace benchmarks
