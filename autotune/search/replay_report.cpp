// Prints the results of replays as text and as JSON.
#include <kiln/autotune/search/replay.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::tune {

namespace {

using nlohmann::json;

constexpr Difficulty kinds[] = {Difficulty::listed, Difficulty::easy, Difficulty::needle};

const char* word(Difficulty d) {
  return d == Difficulty::easy ? "easy" : d == Difficulty::listed ? "listed" : "needle";
}
const char* title(Difficulty d) {
  switch (d) {
  case Difficulty::easy: return "easier tables (random search needs less than 50 trials to 95 %)";
  case Difficulty::listed: return "the list (random search needs 50 to 600 trials to 95 %)";
  default: return "needles in haystacks (random search needs more than 600 trials to 95 %)";
  }
}

struct Summary {
  std::string strategy;
  std::array<double, 3> trials{};
  std::array<double, 4> share{};
  double p90 = 0, model_seconds = 0;
};

// Summarises the tables that belong: geometric means, but the arithmetic mean for seconds.
std::vector<Summary> summaries(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                               auto&& belongs, bool siblings) {
  std::vector<Summary> rows;
  for (const Replay& first : replays) {
    if (std::any_of(rows.begin(), rows.end(), [&](const Summary& s) { return s.strategy == first.strategy; }))
      continue;
    Summary row{first.strategy, {}, {}, 0, 0};
    int count = 0;
    for (const Replay& r : replays) {
      if (r.strategy != first.strategy || r.siblings != siblings || !belongs(r.table)) continue;
      ++count;
      for (std::size_t s = 0; s < row.trials.size(); ++s)
        row.trials[s] += std::log(r.median[s]);
      for (std::size_t m = 0; m < row.share.size(); ++m)
        row.share[m] += std::log(std::max(r.share[m], 1e-9));
      row.p90 += std::log(r.p90);
      row.model_seconds += r.model_seconds;
    }
    if (!count) continue;
    for (double& t : row.trials)
      t = std::exp(t / count);
    for (double& s : row.share)
      s = std::exp(s / count);
    row.p90 = std::exp(row.p90 / count);
    row.model_seconds /= count;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Returns a row's trials relative to those of the learned strategy; empty if that was not run.
std::string ratios(const Summary& row, const std::vector<Summary>& rows) {
  const auto learned =
      std::find_if(rows.begin(), rows.end(), [](const Summary& s) { return s.strategy == "learned"; });
  if (learned == rows.end()) return {};
  std::string text;
  for (std::size_t s = 0; s < row.trials.size(); ++s)
    text += fmt::format("{}{:.2f}", s ? " / " : "", row.trials[s] / learned->trials[s]);
  return text;
}

std::string table_of(const std::vector<Summary>& rows, int trials) {
  std::string text = fmt::format("  {:<12}", "strategy");
  for (const int mark : replay_marks)
    text += fmt::format(" {:>6}", fmt::format("@{}", mark));
  text += fmt::format("   {:>20} {:>9} {:>9}   {}\n", "trials to 90/95/98 %", "p90 of 95", "model s",
                      rows.size() > 1 ? "over learned's" : "");
  for (const Summary& r : rows) {
    text += fmt::format("  {:<12}", r.strategy);
    for (std::size_t m = 0; m < replay_marks.size(); ++m)
      text += fmt::format(" {:>6}", replay_marks[m] > trials ? "-" : fmt::format("{:.3f}", r.share[m]));
    text += fmt::format("   {:>20} {:>9.0f} {:>9.3f}   {}\n",
                        fmt::format("{:.0f} / {:.0f} / {:.0f}", r.trials[0], r.trials[1], r.trials[2]), r.p90,
                        r.model_seconds, rows.size() > 1 ? ratios(r, rows) : "");
  }
  return text;
}

double median_over_best(const Table& table) {
  std::vector<double> seconds;
  for (const Measurement& m : table.results)
    if (m.ok()) seconds.push_back(m.seconds);
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2] / table.best_seconds();
}

std::size_t working(const Table& table) {
  return static_cast<std::size_t>(
      std::count_if(table.results.begin(), table.results.end(), [](const Measurement& m) { return m.ok(); }));
}

json rows_of(const std::vector<Summary>& rows) {
  json list = json::array();
  for (const Summary& r : rows)
    list.push_back({{"strategy", r.strategy},
                    {"trials", r.trials},
                    {"share", r.share},
                    {"p90", r.p90},
                    {"model_seconds", r.model_seconds}});
  return list;
}

} // namespace

std::string replay_text(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options) {
  std::string text = fmt::format("{:<34} {:>8} {:>8} {:>11} {:>12} {:>16}  {}\n", "table", "configs",
                                 "working", "best", "median/best", "random to 95 %", "class");
  for (const Difficulty kind : kinds)
    for (const Table& t : tables)
      if (difficulty(t) == kind)
        text += fmt::format("{:<34} {:>8} {:>8} {:>8.4g} ms {:>12.2f} {:>16.0f}  {}\n", t.name,
                            t.points.size(), working(t), t.best_seconds() * 1e3, median_over_best(t),
                            t.random_trials(0.95), word(kind));
  text +=
      fmt::format("\n{} seeds, at most {} trials, a miss counts as {}; medians over seeds, geometric means "
                  "over tables",
                  options.seeds, options.trials, 2 * options.trials);
  if (options.noise > 0) text += fmt::format("; noise of {:.1f} %", options.noise * 100);
  text += "\n";

  for (const Difficulty kind : kinds) {
    bool any = false;
    for (const bool siblings : {false, true}) {
      const auto rows =
          summaries(tables, replays, [&](std::size_t t) { return difficulty(tables[t]) == kind; }, siblings);
      if (rows.empty()) continue;
      any = true;
      std::set<std::size_t> used;
      for (const Replay& r : replays)
        if (r.siblings == siblings && difficulty(tables[r.table]) == kind) used.insert(r.table);
      text +=
          fmt::format("\n{}, {} of {}{}\n", title(kind), used.size(), tables.size(),
                      siblings ? fmt::format(", with {} records of siblings", options.sibling_records) : "");
      text += table_of(rows, options.trials);
    }
    if (!any && kind == Difficulty::listed) text += fmt::format("\n{}: none of these tables\n", title(kind));
  }
  if (tables.size() > 1)
    for (const Difficulty kind : kinds)
      for (std::size_t t = 0; t < tables.size(); ++t)
        for (const bool siblings : {false, true}) {
          if (difficulty(tables[t]) != kind) continue;
          const auto rows = summaries(tables, replays, [&](std::size_t i) { return i == t; }, siblings);
          if (rows.empty()) continue;
          text += fmt::format("\n{} ({}){}\n", tables[t].name, word(kind),
                              siblings ? fmt::format(", with {} records of siblings", options.sibling_records)
                                       : "");
          text += table_of(rows, options.trials);
        }
  return text;
}

std::string replay_json(const std::vector<Table>& tables, const std::vector<Replay>& replays,
                        const ReplayOptions& options) {
  json report;
  report["seeds"] = options.seeds;
  report["trials"] = options.trials;
  report["noise"] = options.noise;
  report["sibling_records"] = options.sibling_records;
  report["shares"] = replay_shares;
  report["marks"] = replay_marks;
  report["tables"] = json::array();
  for (const Table& t : tables)
    report["tables"].push_back({{"name", t.name},
                                {"family", t.family},
                                {"device", t.device},
                                {"problem", t.problem.to_string()},
                                {"configs", t.points.size()},
                                {"working", working(t)},
                                {"best_seconds", t.best_seconds()},
                                {"random_trials", t.random_trials(0.95)},
                                {"class", word(difficulty(t))}});
  report["summary"] = json::array();
  for (const Difficulty kind : kinds)
    for (const bool siblings : {false, true}) {
      const auto rows =
          summaries(tables, replays, [&](std::size_t t) { return difficulty(tables[t]) == kind; }, siblings);
      if (!rows.empty())
        report["summary"].push_back({{"class", word(kind)}, {"siblings", siblings}, {"rows", rows_of(rows)}});
    }
  report["runs"] = json::array();
  for (const Replay& r : replays)
    report["runs"].push_back({{"table", tables[r.table].name},
                              {"strategy", r.strategy},
                              {"siblings", r.siblings},
                              {"median", r.median},
                              {"p90", r.p90},
                              {"share", r.share},
                              {"model_seconds", r.model_seconds},
                              {"reached", r.reached}});
  return report.dump(1) + "\n";
}

} // namespace kiln::tune
