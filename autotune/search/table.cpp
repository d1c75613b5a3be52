// Reads and writes recorded tables, and measures points by looking them up.
#include <kiln/autotune/search/table.h>

#include "gzip_file.h"

#include <kiln/autotune/json_reason.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>

namespace kiln::tune {

namespace {

using nlohmann::json;

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  throw UserError("table " + path + ": " + what);
}

// "conv-A100_T4.json.gz" -> "conv-A100"
std::string stem_of(const std::string& path) {
  std::string stem = std::filesystem::path(path).filename().string();
  for (const char* suffix : {".gz", ".json", "_T4"})
    if (stem.size() > std::string_view(suffix).size() && stem.ends_with(suffix))
      stem.resize(stem.size() - std::string_view(suffix).size());
  return stem;
}

// ---- T4: metadata and a list of results ----

// One column of the configurations; its values may have any type.
struct Column {
  std::string name;
  std::vector<json> values; // distinct, sorted
  std::uint16_t index(const json& v) const {
    return static_cast<std::uint16_t>(std::lower_bound(values.begin(), values.end(), v) - values.begin());
  }
};

bool is_whole(const json& v) {
  if (v.is_boolean() || v.is_number_integer()) return true;
  if (!v.is_number_float()) return false;
  const double d = v.get<double>();
  return d == std::floor(d) && std::abs(d) < 9e15;
}
std::int64_t whole(const json& v) {
  if (v.is_boolean()) return v.get<bool>() ? 1 : 0;
  return v.is_number_float() ? static_cast<std::int64_t>(v.get<double>()) : v.get<std::int64_t>();
}
bool all_whole(const std::vector<json>& values) {
  std::set<std::int64_t> different; // true and 1 are the same
  for (const json& v : values)
    if (!is_whole(v) || !different.insert(whole(v)).second) return false;
  return true;
}

Knob knob_of(const Column& column) {
  Knob knob{column.name, {}, {}, true};
  if (all_whole(column.values)) {
    for (const json& v : column.values)
      knob.values.push_back(whole(v));
    knob.ordered = std::is_sorted(knob.values.begin(), knob.values.end());
    return knob;
  }
  knob.ordered =
      std::all_of(column.values.begin(), column.values.end(), [](const json& v) { return v.is_number(); });
  for (const json& v : column.values) {
    knob.values.push_back(static_cast<std::int64_t>(knob.values.size()));
    knob.labels.push_back(v.is_string() ? v.get<std::string>() : v.dump());
  }
  return knob;
}

Status status_of(const std::string& invalidity) {
  static constexpr std::pair<const char*, Status> names[] = {
      {"correct", Status::ok},      {"compile", Status::compile_error},    {"runtime", Status::launch_error},
      {"timeout", Status::timeout}, {"correctness", Status::wrong_result}, {"constraints", Status::refused},
  };
  for (const auto& [text, status] : names)
    if (invalidity == text) return status;
  return Status::launch_error;
}

// Returns the seconds of one unit. T4 files use milliseconds, mostly without naming the unit.
double unit_of(const std::string& path, const std::string& unit) {
  static constexpr std::pair<const char*, double> units[] = {
      {"", 1e-3},     {"ms", 1e-3}, {"miliseconds", 1e-3},  {"milliseconds", 1e-3}, {"s", 1},
      {"seconds", 1}, {"us", 1e-6}, {"microseconds", 1e-6}, {"ns", 1e-9},           {"nanoseconds", 1e-9},
  };
  for (const auto& [text, seconds] : units)
    if (unit == text) return seconds;
  bad(path, "its times have the unit \"" + unit + "\"; known are s, ms, us and ns");
}

Measurement t4_result(const std::string& path, const json& row, const std::string& default_unit) {
  Measurement m;
  const std::string invalidity = row.value("invalidity", "correct");
  m.status = status_of(invalidity);
  if (const auto times = row.find("times"); times != row.end() && times->is_object()) {
    if (const auto c = times->find("compilation"); c != times->end() && c->is_number())
      m.compile_seconds = c->get<double>() * 1e-3;
    if (const auto r = times->find("runtimes"); r != times->end() && r->is_array())
      m.launches = static_cast<int>(r->size());
  }
  if (!m.ok()) {
    m.error = invalidity + " failed when the table was recorded";
    return m;
  }
  for (const json& measurement : row.at("measurements")) {
    if (measurement.at("name") != "time") continue;
    const json& value = measurement.at("value");
    std::string unit = measurement.value("unit", "");
    if (unit.empty()) unit = default_unit;
    m.seconds = value.is_number() ? value.get<double>() * unit_of(path, unit) : 0;
  }
  if (!(m.seconds > 0) || !std::isfinite(m.seconds)) {
    m.status = Status::not_a_number;
    m.seconds = 0;
    m.error = "the table has no time for it";
  }
  m.low = m.high = m.seconds;
  return m;
}

Table read_t4(const std::string& path, const json& file) {
  const json& rows = file.at("results");
  if (!rows.is_array() || rows.empty()) bad(path, "\"results\" holds no configs; record at least one");
  std::vector<Column> columns;
  for (const auto& [name, value] : rows[0].at("configuration").items())
    columns.push_back({name, {}});
  std::vector<std::set<json>> different(columns.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& configuration = rows[i].at("configuration");
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto at = configuration.find(columns[c].name);
      if (at == configuration.end() || configuration.size() != columns.size())
        bad(path, "the configuration of result " + std::to_string(i) +
                      " has other knobs than that of result 0; each must have the same");
      if (!at->is_primitive())
        bad(path, "knob " + columns[c].name + " of result " + std::to_string(i) +
                      " is neither a number nor a word");
      different[c].insert(*at);
    }
  }
  Table table;
  table.name = stem_of(path);
  const std::size_t dash = table.name.find('-');
  table.family = table.name.substr(0, dash);
  if (dash != std::string::npos) table.device = table.name.substr(dash + 1);

  std::vector<std::size_t> tuned; // columns; those with a single value belong to the problem
  for (std::size_t c = 0; c < columns.size(); ++c) {
    columns[c].values.assign(different[c].begin(), different[c].end());
    if (columns[c].values.size() > 1)
      tuned.push_back(c);
    else if (is_whole(columns[c].values[0]))
      table.problem.sizes.emplace_back(columns[c].name, whole(columns[c].values[0]));
  }
  for (const std::size_t c : tuned)
    table.space.knob(knob_of(columns[c]));

  std::string unit;
  if (const auto metadata = file.find("metadata"); metadata != file.end() && metadata->is_object())
    unit = metadata->value("timeunit", "");
  std::unordered_set<Point, PointHash> seen;
  for (const json& row : rows) {
    Point point;
    for (const std::size_t c : tuned)
      point.push_back(columns[c].index(row["configuration"][columns[c].name]));
    if (!seen.insert(point).second) continue; // recorded twice
    table.points.push_back(std::move(point));
    table.results.push_back(t4_result(path, row, unit));
  }
  return table;
}

// ---- Kiln's own ----
//
// {"kiln_table": 1, "name", "family", "device", "kind", "sizes": [["M", 512], ...],
//  "knobs": [{"name", "values", "labels", "ordered"}, ...], "seeds": [[0, 2, 1], ...],
//  "points": [[0, 0, 3], ...],                    indices of values
//  "seconds": [1.25e-3, "timeout", ...],          or the status of the failure
//  "compile_seconds": [...], "facts": {"registers": [...], ...}}      null if there is none

Table read_own(const std::string& path, const json& file) {
  if (const json& version = file.at("kiln_table"); version != 1)
    bad(path, "its format is version " + version.dump() + ", but this Kiln reads version 1; update Kiln");
  Table table;
  table.name = file.value("name", stem_of(path));
  table.family = file.value("family", table.name);
  table.device = file.value("device", "");
  table.problem.kind = file.value("kind", "");
  for (const json& size : file.value("sizes", json::array()))
    table.problem.sizes.emplace_back(size.at(0).get<std::string>(), size.at(1).get<std::int64_t>());
  for (const json& k : file.at("knobs"))
    table.space.knob({k.at("name"), k.at("values"), k.value("labels", std::vector<std::string>{}),
                      k.value("ordered", true)});
  const std::vector<Knob>& knobs = table.space.knobs();
  const json& seconds = file.at("seconds");
  const json& points = file.at("points");
  if (!points.is_array() || !seconds.is_array() || points.size() != seconds.size())
    bad(path, "\"points\" and \"seconds\" must be two lists of the same length");
  const json compile = file.value("compile_seconds", json::array());
  const json facts = file.value("facts", json::object());
  auto number_at = [](const json& list, std::size_t i) -> std::optional<double> {
    if (!list.is_array() || i >= list.size() || !list[i].is_number()) return std::nullopt;
    return list[i].get<double>();
  };
  std::unordered_set<Point, PointHash> seen;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto indices = points[i].get<std::vector<std::int64_t>>();
    bool fits = indices.size() == knobs.size();
    for (std::size_t k = 0; fits && k < knobs.size(); ++k)
      fits = indices[k] >= 0 && static_cast<std::size_t>(indices[k]) < knobs[k].values.size();
    Point point(indices.begin(), indices.end());
    if (!fits || !seen.insert(point).second)
      bad(path, "point " + std::to_string(i) +
                    (fits ? " occurs twice" : " does not hold one index of a value for each knob"));
    Measurement m;
    if (seconds[i].is_string()) {
      const auto status = parse_status(seconds[i].get<std::string>());
      if (!status || *status == Status::ok)
        bad(path, "the result of point " + std::to_string(i) + ", " + seconds[i].dump() +
                      ", is neither a time nor a known failure");
      m.status = *status;
      m.error = seconds[i].get<std::string>() + " when the table was recorded";
    } else {
      m.seconds = m.low = m.high = seconds[i].get<double>();
      if (!(m.seconds > 0) || !std::isfinite(m.seconds))
        bad(path, "the time of point " + std::to_string(i) + " is " + seconds[i].dump() +
                      "; it must be more than 0");
      m.launches = 1;
    }
    m.compile_seconds = number_at(compile, i).value_or(0);
    for (const auto& [fact, values] : facts.items())
      if (const auto v = number_at(values, i)) m.facts[fact] = *v;
    table.points.push_back(std::move(point));
    table.results.push_back(std::move(m));
  }
  for (const json& s : file.value("seeds", json::array())) {
    const auto indices = s.get<std::vector<std::int64_t>>();
    bool fits = indices.size() == knobs.size();
    for (std::size_t k = 0; fits && k < knobs.size(); ++k)
      fits = indices[k] >= 0 && static_cast<std::size_t>(indices[k]) < knobs[k].values.size();
    if (!fits) bad(path, "a seed does not hold one index of a value for each knob");
    table.space.seed(Point(indices.begin(), indices.end()));
  }
  return table;
}

json rounded(double v) { // to six digits, since tables are committed
  if (v == 0 || !std::isfinite(v)) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(v))));
  return std::round(v * scale) / scale;
}

// A small gzip file may expand to more values than fit into memory.
void check_values(const std::string& path, const std::string& text) {
  constexpr std::ptrdiff_t most = 32'000'000;
  const auto separators =
      std::count_if(text.begin(), text.end(), [](char c) { return c == ',' || c == '[' || c == '{'; });
  if (separators > most)
    bad(path, fmt::format("it has more than {} values; record fewer configs or launches in one table", most));
}

class TableMeasurer final : public Measurer {
public:
  TableMeasurer(const Table& table, double noise, std::uint64_t seed)
      : table_(table), noise_(noise), random_(seed ^ 0x5bd1e995u) {
    for (std::size_t i = 0; i < table.points.size(); ++i)
      index_.emplace(table.points[i], i);
    for (const Measurement& m : table.results)
      for (const auto& [fact, value] : m.facts)
        has_code_facts_ |= is_of_code(fact);
  }
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener) override {
    return look_up(points, 1, listener);
  }
  std::vector<Measurement> confirm(std::span<const Point> points) override { return look_up(points, 9, {}); }
  std::size_t compilers() const override { return has_code_facts_ ? 1 : 0; }
  std::vector<Measurement> compile(std::span<const Point> points) override {
    std::vector<Measurement> results;
    for (const Point& p : points) {
      Measurement m = recorded(p);
      std::erase_if(m.facts, [](const auto& fact) { return !is_of_code(fact.first); });
      const bool compiled = m.status != Status::refused && m.status != Status::compile_error &&
                            m.status != Status::compile_timeout;
      if (compiled) m.status = Status::ok, m.error.clear();
      m.seconds = m.low = m.high = 0, m.launches = 0;
      results.push_back(std::move(m));
    }
    return results;
  }

private:
  std::vector<Measurement> look_up(std::span<const Point> points, int repeats, const Listener& listener) {
    std::vector<Measurement> results;
    for (const Point& p : points) {
      results.push_back(look_up(p, repeats));
      if (listener && !listener(results.back())) break;
    }
    return results;
  }
  Measurement recorded(const Point& point) const {
    const auto at = index_.find(point);
    if (at != index_.end()) return table_.results[at->second];
    Measurement none;
    none.status = Status::refused;
    none.error = "the table has no such config";
    return none;
  }
  Measurement look_up(const Point& point, int repeats) {
    Measurement m = recorded(point);
    if (noise_ > 0 && m.ok()) {
      std::vector<double> errors(static_cast<std::size_t>(repeats));
      for (double& e : errors)
        e = noise_ * normal();
      std::nth_element(errors.begin(), errors.begin() + repeats / 2, errors.end());
      const double factor = std::exp(errors[static_cast<std::size_t>(repeats / 2)]);
      m.seconds *= factor, m.low *= factor, m.high *= factor;
    }
    return m;
  }
  double normal() { // Box and Muller
    constexpr double two_pi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(1 - random_.uniform()));
    return radius * std::cos(two_pi * random_.uniform());
  }

  const Table& table_;
  double noise_;
  Random random_;
  std::unordered_map<Point, std::size_t, PointHash> index_;
  bool has_code_facts_ = false;
};

} // namespace

double Table::best_seconds() const {
  double best = std::numeric_limits<double>::infinity();
  for (const Measurement& m : results)
    if (m.ok()) best = std::min(best, m.seconds);
  return best;
}

double Table::random_trials(double share) const {
  const double enough = best_seconds() / share;
  const auto good = std::count_if(results.begin(), results.end(),
                                  [&](const Measurement& m) { return m.ok() && m.seconds <= enough; });
  return static_cast<double>(results.size() + 1) / static_cast<double>(good + 1);
}

Table read_table(const std::string& path) {
  const std::string text = read_gzip_file(path);
  check_values(path, text);
  Table table;
  try {
    const json file = json::parse(text);
    if (!file.is_object()) bad(path, "it is not a JSON object; give a T4 file or a table that Kiln wrote");
    if (file.contains("kiln_table"))
      table = read_own(path, file);
    else if (file.contains("results"))
      table = read_t4(path, file);
    else
      bad(path,
          "it has neither \"results\" (T4) nor \"kiln_table\"; give a T4 file or a table that Kiln wrote");
  } catch (const json::exception& e) {
    bad(path, "it is not a valid table: " + json_reason(e));
  }
  if (!std::isfinite(table.best_seconds()))
    bad(path,
        "none of its " + std::to_string(table.results.size()) + " configs has a time; record one that works");
  table.space.only(table.points);
  return table;
}

void write_table(const Table& table, const std::string& path) {
  json file;
  file["kiln_table"] = 1;
  file["name"] = table.name;
  file["family"] = table.family;
  file["device"] = table.device;
  file["kind"] = table.problem.kind;
  file["sizes"] = json::array();
  for (const auto& [name, size] : table.problem.sizes)
    file["sizes"].push_back({name, size});
  file["knobs"] = json::array();
  for (const Knob& k : table.space.knobs()) {
    json knob{{"name", k.name}, {"values", k.values}, {"ordered", k.ordered}};
    if (!k.labels.empty()) knob["labels"] = k.labels;
    file["knobs"].push_back(std::move(knob));
  }
  file["seeds"] = table.space.seeds();
  file["points"] = table.points;
  file["seconds"] = json::array();
  file["compile_seconds"] = json::array();
  std::map<std::string, json> facts;
  for (const Measurement& m : table.results)
    for (const auto& [fact, value] : m.facts)
      facts.emplace(fact, json::array());
  for (const Measurement& m : table.results) {
    file["seconds"].push_back(m.ok() ? rounded(m.seconds) : json(name(m.status)));
    file["compile_seconds"].push_back(rounded(m.compile_seconds));
    for (auto& [fact, values] : facts) {
      const auto at = m.facts.find(fact);
      values.push_back(at == m.facts.end() ? json() : rounded(at->second));
    }
  }
  file["facts"] = facts;
  // Write one line per member, so that differences between recordings can be read.
  std::string text;
  for (const auto& [key, value] : file.items())
    text += (text.empty() ? "{" : ",\n ") + json(key).dump() + ": " + value.dump();
  write_gzip_file(path, text + "}\n");
}

std::unique_ptr<Measurer> table_measurer(const Table& table, double noise, std::uint64_t seed) {
  return std::make_unique<TableMeasurer>(table, noise, seed);
}

} // namespace kiln::tune
