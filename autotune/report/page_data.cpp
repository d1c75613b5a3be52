// Computes all numbers of a report and writes them as JSON, which the page only draws.
#include <kiln/autotune/report/page_data.h>

#include <kiln/autotune/report/statistics.h>
#include <kiln/autotune/report/text.h>
#include <kiln/jit/base/version.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>

namespace kiln::tune {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_message = 400, top_count = 10, recall_count = 8;

// Six digits are more than the precision of a measurement, and take a third of the bytes that all digits
// take.
Json json_number(double x) {
  if (!std::isfinite(x)) return nullptr;
  if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<std::int64_t>(x);
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return std::strtod(text, nullptr);
}
Json positive(double x) { return usable(x) ? json_number(x) : Json(); }

// A column of numbers.
template <class F>
Json column(const char* group, std::string name, const char* unit, std::size_t count, F of) {
  Json values = Json::array();
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(json_number(of(i)));
  return {{"group", group}, {"name", std::move(name)}, {"unit", unit}, {"values", std::move(values)}};
}

// A column of texts: indices into `labels`.
template <class F> Json words(const char* group, std::string name, std::size_t count, F of) {
  std::vector<std::string> labels;
  Json values = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string word = clean_text(of(i), longest_message);
    const auto at = std::find(labels.begin(), labels.end(), word);
    values.push_back(at - labels.begin());
    if (at == labels.end()) labels.push_back(word);
  }
  return {{"group", group}, {"name", std::move(name)}, {"labels", labels}, {"values", std::move(values)}};
}

Json knob_column(const ReportData& data, std::size_t knob) {
  const Knob& k = data.knobs[knob];
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < k.values.size(); ++i)
    labels.push_back(value_text(k, i));
  Json values = Json::array();
  for (const Trial& trial : data.search.trials)
    values.push_back(knob < trial.point.size() && trial.point[knob] < labels.size() ? Json(trial.point[knob])
                                                                                    : Json());
  return {
      {"group", "knob"}, {"name", k.name}, {"labels", labels}, {"values", values}, {"ordered", k.ordered}};
}

std::string unit_of_fact(const std::string& name) {
  return name.ends_with("_bytes") ? "B" : name.ends_with("_seconds") ? "s" : "";
}

Json columns(const ReportData& data) {
  const auto& trials = data.search.trials;
  const std::size_t n = trials.size();
  Json all = Json::array();
  const auto result = [&](auto member) {
    return [&trials, member](std::size_t i) { return static_cast<double>(trials[i].result.*member); };
  };
  all.push_back(column("trial", "time", "s", n, [&](std::size_t i) {
    return has_time(trials[i]) ? trials[i].result.seconds : not_known;
  }));
  all.push_back(words("trial", "outcome", n, [&](std::size_t i) { return name(trials[i].result.status); }));
  all.push_back(words("trial", "source", n, [&](std::size_t i) { return trials[i].source; }));
  all.push_back(words("trial", "message", n, [&](std::size_t i) { return trials[i].result.error; }));
  all.push_back(column("trial", "at", "s", n, [&](std::size_t i) { return trials[i].at_seconds; }));
  all.push_back(column("trial", "batch", "", n, [&](std::size_t i) { return trials[i].batch; }));
  all.push_back(column("trial", "low", "s", n, result(&Measurement::low)));
  all.push_back(column("trial", "high", "s", n, result(&Measurement::high)));
  all.push_back(column("trial", "launches", "", n, result(&Measurement::launches)));
  all.push_back(column("trial", "relative to the anchor", "", n, [&](std::size_t i) {
    return trials[i].result.relative > 0 ? trials[i].result.relative : not_known;
  }));
  all.push_back(column("trial", "compile time", "s", n, result(&Measurement::compile_seconds)));
  all.push_back(column("trial", "run time", "s", n, result(&Measurement::run_seconds)));
  all.push_back(column("trial", "predicted", "s", n, [&](std::size_t i) {
    return usable(trials[i].predicted) ? trials[i].predicted : not_known;
  }));
  if (!data.expected.empty())
    all.push_back(column("analytic", "analytic estimate", "s", n, [&](std::size_t i) {
      return i < data.expected.size() ? data.expected[i] : not_known;
    }));
  for (std::size_t k = 0; k < data.knobs.size(); ++k)
    all.push_back(knob_column(data, k));
  std::set<std::string> facts;
  for (const Trial& trial : trials)
    for (const auto& [fact, value] : trial.result.facts)
      facts.insert(fact);
  for (const std::string& fact : facts)
    all.push_back(column("fact", fact, unit_of_fact(fact).c_str(), n, [&](std::size_t i) {
      const auto at = trials[i].result.facts.find(fact);
      return at == trials[i].result.facts.end() ? not_known : at->second;
    }));
  for (const ReportColumn& extra : data.columns)
    all.push_back(column("analytic", extra.name, extra.unit.c_str(), n, [&](std::size_t i) {
      return i < extra.values.size() ? extra.values[i] : not_known;
    }));
  return all;
}

Json measured(const Measurement& m) {
  Json facts = Json::object();
  for (const auto& [fact, value] : m.facts)
    facts[fact] = json_number(value);
  return {{"seconds", positive(m.seconds)},
          {"low", positive(m.low)},
          {"high", positive(m.high)},
          {"launches", m.launches},
          {"facts", facts}};
}

// Lists each config once, with its best known result: first the finalists, then the others, each group with
// the fastest first.
Json top(const ReportData& data) {
  const SearchResult& s = data.search;
  struct Row {
    const Point* point;
    const Measurement* result;
    bool confirmed;
  };
  std::vector<Row> rows;
  std::set<Point> seen;
  for (std::size_t i = 0; i < std::min(s.finalists.size(), s.confirmed.size()); ++i)
    if (s.confirmed[i].ok() && usable(s.confirmed[i].seconds) && seen.insert(s.finalists[i]).second)
      rows.push_back({&s.finalists[i], &s.confirmed[i], true});
  std::vector<Row> others;
  for (const Trial& trial : s.trials)
    if (has_time(trial)) others.push_back({&trial.point, &trial.result, false});
  const auto faster = [](const Row& a, const Row& b) { return a.result->seconds < b.result->seconds; };
  std::stable_sort(rows.begin(), rows.end(), faster);
  std::stable_sort(others.begin(), others.end(), faster);
  // A finalist that failed its confirmation must not appear among the others either.
  for (std::size_t i = 0; i < std::min(s.finalists.size(), s.confirmed.size()); ++i)
    seen.insert(s.finalists[i]);
  for (const Row& row : others)
    if (seen.insert(*row.point).second) rows.push_back(row);
  if (s.best) // the winner comes first, even if noise makes another config look faster
    std::stable_partition(rows.begin(), rows.end(), [&](const Row& row) { return *row.point == *s.best; });
  if (rows.size() > top_count) rows.resize(top_count);
  Json list = Json::array();
  for (const Row& row : rows) {
    Json json = measured(*row.result);
    json["config"] = point_text(data.knobs, *row.point);
    json["confirmed"] = row.confirmed;
    const auto trial =
        std::find_if(s.trials.begin(), s.trials.end(), [&](const Trial& t) { return t.point == *row.point; });
    if (trial != s.trials.end()) json["trial"] = trial - s.trials.begin();
    list.push_back(std::move(json));
  }
  return list;
}

Json references(const ReportData& data) {
  Json list = Json::array();
  const auto add = [&](const char* name, const char* title, const std::optional<Point>& point,
                       double seconds) {
    const Measurement* m = point ? result_of(data.search, *point) : nullptr;
    if (m && m->ok() && usable(m->seconds)) seconds = m->seconds;
    if (!usable(seconds) && !point) return;
    list.push_back({{"name", name},
                    {"title", title},
                    {"seconds", positive(seconds)},
                    {"config", point ? Json(point_text(data.knobs, *point)) : Json()},
                    {"outcome", m ? Json(tune::name(m->status)) : Json()}});
  };
  add("default", "the known-good config, used where there is no better information", data.fallback,
      data.fallback_seconds);
  add("analytic", "the config that the analytic model chose without measuring", data.analytic,
      data.analytic_seconds);
  add("bound", "the roofline: by the analytic model, no config is faster", {}, data.bound);
  add("known best", "the best of the exhaustive table", {}, data.known_best);
  return list;
}

Json effects(const ReportData& data) {
  Json list = Json::array();
  for (std::size_t k = 0; k < data.knobs.size(); ++k) {
    const Knob& knob = data.knobs[k];
    const KnobEffect effect = knob_effect(k, knob.values.size(), data.search.trials);
    Json values = Json::array();
    for (std::size_t i = 0; i < effect.values.size(); ++i) {
      const auto& v = effect.values[i];
      values.push_back(
          {{"tried", v.tried}, {"ok", v.ok}, {"best", positive(v.best)}, {"median", positive(v.median)}});
    }
    list.push_back({{"knob", knob.name}, {"share", json_number(effect.share)}, {"values", values}});
  }
  return list;
}

// Adds how well a model that predicted `guess` ranked the configs that were then measured.
void add_prediction(Json& list, const ReportData& data, const char* model, const char* column, auto guess) {
  std::vector<double> truth, guessed;
  for (std::size_t i = 0; i < data.search.trials.size(); ++i) {
    if (!has_time(data.search.trials[i]) || !usable(guess(i))) continue;
    truth.push_back(data.search.trials[i].result.seconds);
    guessed.push_back(guess(i));
  }
  if (truth.size() < 2) return;
  list.push_back(
      {{"model", model},
       {"column", column},
       {"trials", truth.size()},
       {"tau", json_number(kendall_tau(truth, guessed))},
       // Of eight trials, any eight are the best eight, so the recall would say nothing.
       {"recall",
        truth.size() > recall_count ? json_number(top_recall(truth, guessed, recall_count)) : Json()},
       {"of", recall_count}});
}

Json predictions(const ReportData& data) {
  Json list = Json::array();
  add_prediction(list, data, "the model that guided the search", "predicted",
                 [&](std::size_t i) { return data.search.trials[i].predicted; });
  add_prediction(list, data, "the analytic model", "analytic estimate",
                 [&](std::size_t i) { return i < data.expected.size() ? data.expected[i] : not_known; });
  return list;
}

Json failure_list(const ReportData& data) {
  Json list = Json::array();
  for (const FailureKind& kind : failures(data.search.trials)) {
    Json messages = Json::array();
    for (const auto& [message, count] : kind.messages)
      messages.push_back({{"text", clean_text(message, longest_message)}, {"count", count}});
    list.push_back({{"kind", name(kind.status)}, {"count", kind.count}, {"messages", messages}});
  }
  return list;
}

Json space(const ReportData& data) {
  Json removed = Json::array();
  for (const RemovedPoints& r : data.removed)
    removed.push_back({{"rule", clean_text(r.rule, longest_message)}, {"points", r.points}});
  double combinations = 1;
  for (const Knob& knob : data.knobs)
    combinations *= static_cast<double>(knob.values.size());
  return {{"size", positive(data.space_size)},
          {"exact", data.space_size_exact},
          {"combinations", json_number(combinations)},
          {"tried", data.points_tried},
          {"removed", removed}};
}

Json why(const ReportData& data) {
  Json estimates = Json::array();
  for (const auto& [name, e] : data.estimates)
    estimates.push_back({{"name", name},
                         {"seconds", positive(e.seconds)},
                         {"limit", e.limit ? e.limit : ""},
                         {"waste", json_number(e.waste)},
                         {"parts",
                          {{"arithmetic", json_number(e.compute)},
                           {"memory", json_number(e.memory)},
                           {"cache", json_number(e.cache)},
                           {"shared memory", json_number(e.shared)},
                           {"programs", json_number(e.programs)},
                           {"launch", json_number(e.launch)}}}});
  Json contributions = Json::array();
  for (const auto& [name, factor] : data.contributions)
    if (usable(factor)) contributions.push_back({{"name", name}, {"factor", json_number(factor)}});
  return {{"estimates", estimates}, {"contributions", contributions}};
}

} // namespace

const Measurement* result_of(const SearchResult& search, const Point& point) {
  for (std::size_t i = 0; i < std::min(search.finalists.size(), search.confirmed.size()); ++i)
    if (search.finalists[i] == point) return &search.confirmed[i];
  const Measurement* fastest = nullptr;
  for (const Trial& trial : search.trials) {
    if (trial.point != point) continue;
    if (!fastest || (trial.result.ok() && (!fastest->ok() || trial.result.seconds < fastest->seconds)))
      fastest = &trial.result;
  }
  return fastest;
}

TimeSplit time_split(const SearchResult& search) {
  double ran = 0, compiled = search.compiled_only_seconds;
  for (const Trial& trial : search.trials)
    ran += trial.result.run_seconds, compiled += trial.result.compile_seconds;
  for (const Measurement& m : search.confirmed)
    ran += m.run_seconds, compiled += m.compile_seconds;
  TimeSplit split{.compiler_seconds = compiled};
  // While a kernel is being timed, nothing else runs. The rest of the measurer's time is spent waiting for
  // compilers, up to the time that they worked.
  split.measure = std::min(ran, search.measure_seconds);
  split.compile = std::min(compiled, search.measure_seconds - split.measure);
  split.model = std::min(search.model_seconds, std::max(0.0, search.seconds - search.measure_seconds));
  split.idle = std::max(0.0, search.seconds - split.measure - split.compile - split.model);
  return split;
}

std::string page_data(const ReportData& data) {
  const SearchResult& s = data.search;
  const TimeSplit split = time_split(s);
  Json machine = Json::array();
  for (const auto& [what, value] : data.machine)
    machine.push_back({clean_text(what), clean_text(value, longest_message)});
  Json best;
  if (s.best) {
    best = measured(s.best_result);
    best["config"] = point_text(data.knobs, *s.best);
    best["point"] = *s.best;
    best["confirmed"] = s.is_confirmed(*s.best);
  }
  Json json = {{"kernel", data.kernel},
               {"problem", data.problem},
               {"device", data.device},
               {"strategy", data.strategy},
               {"version", version()},
               {"stopped", s.stopped_by},
               {"trials", s.trials.size()},
               {"compiled_only", s.compiled_only},
               {"best", best},
               {"top", top(data)},
               {"references", references(data)},
               {"columns", columns(data)},
               {"effects", effects(data)},
               {"predictions", predictions(data)},
               {"failures", failure_list(data)},
               {"space", space(data)},
               {"time",
                {{"seconds", json_number(s.seconds)},
                 {"parts",
                  {{"measure", json_number(split.measure)},
                   {"compile", json_number(split.compile)},
                   {"model", json_number(split.model)},
                   {"idle", json_number(split.idle)}}},
                 {"compilers", json_number(split.compiler_seconds)},
                 {"jobs", data.jobs}}},
               {"why", why(data)},
               {"work", {{"flops", positive(data.flops)}, {"bytes", positive(data.bytes)}}},
               {"machine", machine},
               {"siblings", data.sibling_records},
               {"bad_records", data.bad_records}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace kiln::tune
