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

void Trace::clear() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
}

std::vector<Trace::Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

Nanoseconds Trace::overlap(int rank) const {
  // Counts, at each moment at which a span begins or ends, how many are in progress on each track.
  struct Change {
    Nanoseconds time;
    Track track;
    int by;
  };
  std::vector<Change> changes;
  for (const Span& s : spans())
    if (s.rank == rank) changes.push_back({s.begin, s.track, 1}), changes.push_back({s.end, s.track, -1});
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  Nanoseconds both = 0, last = 0;
  int active[2] = {0, 0};
  for (const Change& c : changes) {
    if (active[0] > 0 && active[1] > 0) both += c.time - last;
    active[static_cast<int>(c.track)] += c.by;
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
                  {"tid", static_cast<int>(s.track)},
                  {"ts", static_cast<double>(s.begin) / 1000},
                  {"dur", static_cast<double>(s.end - s.begin) / 1000}};
    if (s.track == Track::transfers) event["args"] = {{"bytes", s.bytes}};
    events.push_back(std::move(event));
  }
  const auto name = [&](const char* what, int rank, int track, const std::string& text) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", text}}}});
  };
  for (int rank : ranks) {
    name("process_name", rank, 0, "rank " + std::to_string(rank));
    name("thread_name", rank, 0, "computation");
    name("thread_name", rank, 1, "transfers to this rank");
  }
  return json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}.dump(
             1, ' ', false, json::error_handler_t::replace) +
         "\n";
}

void Trace::write(const std::string& path) const {
  std::ofstream file(path);
  file << (path.ends_with(".svg") ? svg() : json());
  if (!file.flush()) throw UserError("the trace cannot be written to \"" + path + "\"; check the folder");
}

} // namespace kiln::collectives
