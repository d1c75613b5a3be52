// Collects the spans of a trace and writes them as JSON.
#include <kiln/collectives/trace.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace kiln::collectives {

void Trace::add(Span span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

std::vector<Trace::Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

Nanoseconds Trace::overlap(int rank) const {
  // Counts, at each moment at which a span begins or ends, how many are in progress in each lane.
  struct Change {
    Nanoseconds time;
    Lane lane;
    int by;
  };
  std::vector<Change> changes;
  for (const Span& s : spans())
    if (s.rank == rank) changes.push_back({s.begin, s.lane, 1}), changes.push_back({s.end, s.lane, -1});
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  Nanoseconds both = 0, last = 0;
  int active[2] = {0, 0};
  for (const Change& c : changes) {
    if (active[0] > 0 && active[1] > 0) both += c.time - last;
    active[static_cast<int>(c.lane)] += c.by;
    last = c.time;
  }
  return both;
}

std::string Trace::json() const {
  using nlohmann::json;
  json events = json::array();
  std::set<int> ranks;
  for (const Span& s : spans()) {
    ranks.insert(s.rank);
    json event = {{"name", s.name},
                  {"ph", "X"},
                  {"pid", s.rank},
                  {"tid", static_cast<int>(s.lane)},
                  {"ts", static_cast<double>(s.begin) / 1000},
                  {"dur", static_cast<double>(s.end - s.begin) / 1000}};
    if (s.lane == Lane::transfers) event["args"] = {{"bytes", s.bytes}};
    events.push_back(std::move(event));
  }
  const auto name = [&](const char* what, int rank, int lane, const std::string& text) {
    events.push_back({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", {{"name", text}}}});
  };
  for (int rank : ranks) {
    name("process_name", rank, 0, "rank " + std::to_string(rank));
    name("thread_name", rank, 0, "computation");
    name("thread_name", rank, 1, "transfers to this rank");
  }
  return json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}.dump(1) + "\n";
}

void Trace::write(const std::string& path) const {
  std::ofstream file(path);
  file << json();
  if (!file.flush()) throw UserError("the trace cannot be written to \"" + path + "\"; check the folder");
}

} // namespace kiln::collectives
