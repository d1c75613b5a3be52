// Prints the rows of a run as a table, with the mean of each kind of row.
#include "table.h"

#include "benchmarks/numbers.h"

#include <map>

namespace benchmarks {
namespace {

constexpr double reached_share = 0.97, behind_ratio = 0.95;

Mean mean_of(const std::string& name, int threads, const std::vector<const Row*>& rows) {
  Mean mean{.name = name, .threads = threads, .rows = static_cast<int>(rows.size())};
  GeometricMean ratio, share;
  for (const Row* r : rows) {
    if (double x = r->ratio(); x > 0) {
      ratio.add(x);
      ++mean.compared;
      if (mean.worst_ratio == 0 || x < mean.worst_ratio) mean.worst_ratio = x, mean.worst_name = r->name;
      if (x < behind_ratio && r->limit_share < reached_share) ++mean.behind;
    }
    if (r->limit_share > 0) {
      share.add(r->limit_share);
      mean.limit = mean.limit.empty() || mean.limit == r->limit ? r->limit : "FMA or memory";
      mean.worst_share = mean.worst_share == 0 ? r->limit_share : std::min(mean.worst_share, r->limit_share);
      if (r->limit_share >= reached_share) ++mean.reached;
    }
  }
  mean.ratio = ratio.value(), mean.share = share.value();
  return mean;
}

// The names of the other contenders in rows of a group, in the order of their first appearance.
std::vector<std::string> columns_of(const std::vector<const Row*>& rows) {
  std::vector<std::string> names;
  for (const Row* r : rows)
    for (const Time& t : r->others)
      if (std::find(names.begin(), names.end(), t.name) == names.end()) names.push_back(t.name);
  return names;
}

void print_row(const Row& r, const std::vector<std::string>& columns) {
  fmt::print("{:<48} {:>5} {:>2} {:>10}", r.name, r.dtype, r.threads, time_text(r.seconds));
  fmt::print(" {:>18}", r.rate > 0         ? fmt::format("{:.{}f} {}", r.rate, r.rate < 100 ? 1 : 0, r.unit)
                        : r.element_ns > 0 ? fmt::format("{:.3f} ns a core", r.element_ns)
                                           : "");
  for (const std::string& name : columns) {
    auto found =
        std::find_if(r.others.begin(), r.others.end(), [&](const Time& t) { return t.name == name; });
    fmt::print(" {:>14}", found == r.others.end() ? "" : time_text(found->seconds));
  }
  fmt::print(" {:>6}", r.ratio() > 0 ? fmt::format("{:.2f}", r.ratio()) : "");
  if (r.limit_share > 0) fmt::print(" {:>5.0f} % of {}", r.limit_share * 100, r.limit);
  fmt::print("\n");
}

} // namespace

std::vector<Mean> summarise(const std::vector<Row>& rows) {
  std::vector<std::pair<std::string, int>> order;
  std::map<std::pair<std::string, int>, std::vector<const Row*>> parts;
  std::map<std::pair<std::string, std::string>, double> alone; // seconds on one thread
  for (const Row& r : rows) {
    if (r.threads == 1) alone[{r.name, r.dtype}] = r.seconds;
    if (r.mean.empty()) continue;
    auto& part = parts[{r.mean, r.threads}];
    if (part.empty()) order.emplace_back(r.mean, r.threads);
    part.push_back(&r);
  }
  std::vector<Mean> means;
  for (const auto& key : order) {
    Mean mean = mean_of(key.first, key.second, parts[key]);
    GeometricMean speedup;
    for (const Row* r : parts[key])
      if (auto one = alone.find({r->name, r->dtype}); r->threads > 1 && one != alone.end()) {
        double x = one->second / r->seconds;
        speedup.add(x);
        mean.worst_speedup = mean.worst_speedup == 0 ? x : std::min(mean.worst_speedup, x);
      }
    mean.speedup = speedup.value();
    means.push_back(std::move(mean));
  }
  std::stable_sort(means.begin(), means.end(), [&](const Mean& a, const Mean& b) {
    auto first = [&](const Mean& m) {
      return std::find_if(order.begin(), order.end(), [&](const auto& o) { return o.first == m.name; });
    };
    return first(a) < first(b);
  });
  return means;
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::string> groups;
  for (const Row& r : rows)
    if (std::find(groups.begin(), groups.end(), r.group) == groups.end()) groups.push_back(r.group);
  for (const std::string& group : groups) {
    std::vector<const Row*> part;
    for (const Row& r : rows)
      if (r.group == group) part.push_back(&r);
    // The rows of the same work with different numbers of threads are printed together.
    std::vector<const Row*> sorted;
    for (const Row* r : part)
      if (std::find(sorted.begin(), sorted.end(), r) == sorted.end())
        for (const Row* s : part)
          if (s->name == r->name && s->dtype == r->dtype) sorted.push_back(s);
    auto columns = columns_of(part);
    fmt::print("\n{:<48} {:>5} {:>2} {:>10} {:>18}", group, "", "on", "Kiln", "");
    for (const std::string& name : columns)
      fmt::print(" {:>14}", name);
    fmt::print(" {:>6}\n", "ratio");
    for (const Row* r : sorted)
      print_row(*r, columns);
  }
}

void print_summary(const std::vector<Mean>& means) {
  if (means.empty()) return;
  fmt::print("\n{:<34} {:>2} {:>4} {:>7} {:>5} {:>6} {:>9} {:>5} {:>7} {:>8} {:>5}\n", "geometric means",
             "on", "rows", "ratio", "least", "< 0.95", "of limit", "least", ">= 0.97", "speedup", "least");
  auto number = [](double x) { return x > 0 ? fmt::format("{:.2f}", x) : ""; };
  for (const Mean& m : means)
    fmt::print("{:<34} {:>2} {:>4} {:>7} {:>5} {:>6} {:>9} {:>5} {:>7} {:>8} {:>5}  {}\n", m.name, m.threads,
               m.rows, number(m.ratio), number(m.worst_ratio), m.compared ? fmt::format("{}", m.behind) : "",
               number(m.share), number(m.worst_share), m.share > 0 ? fmt::format("{}", m.reached) : "",
               number(m.speedup), number(m.worst_speedup),
               m.compared > 1 ? "least ratio: " + m.worst_name : "");
}

nlohmann::ordered_json to_json(const Mean& m) {
  return {{"name", m.name},
          {"threads", m.threads},
          {"rows", m.rows},
          {"compared", m.compared},
          {"ratio", m.ratio},
          {"worst_ratio", m.worst_ratio},
          {"worst_name", m.worst_name},
          {"below_095", m.behind},
          {"limit", m.limit},
          {"limit_share", m.share},
          {"worst_limit_share", m.worst_share},
          {"reached_097", m.reached},
          {"speedup", m.speedup},
          {"worst_speedup", m.worst_speedup}};
}

} // namespace benchmarks
