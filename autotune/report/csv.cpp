// Writes the trials of a report as CSV.
#include <kiln/autotune/report/report.h>
#include <kiln/autotune/report/text.h>

#include <cmath>
#include <cstdio>
#include <set>

namespace kiln::tune {

namespace {

std::string number(double x) {
  if (!std::isfinite(x)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

} // namespace

std::string trials_csv(const ReportData& data) {
  std::set<std::string> facts;
  for (const Trial& trial : data.search.trials)
    for (const auto& [fact, value] : trial.result.facts)
      facts.insert(fact);

  std::string csv =
      "trial,batch,source,status,seconds,low,high,launches,relative,predicted,expected,at_seconds,"
      "compile_seconds,run_seconds";
  for (const Knob& knob : data.knobs)
    csv += ',' + csv_field(knob.name);
  for (const std::string& fact : facts)
    csv += ',' + csv_field(fact);
  for (const ReportColumn& column : data.columns)
    csv += ',' + csv_field(column.name);
  csv += ",error\n";

  for (std::size_t i = 0; i < data.search.trials.size(); ++i) {
    const Trial& t = data.search.trials[i];
    const Measurement& m = t.result;
    const auto timed = [&](double x) { return m.ok() ? number(x) : std::string(); };
    csv +=
        std::to_string(i) + ',' + std::to_string(t.batch) + ',' + csv_field(t.source) + ',' + name(m.status);
    for (const std::string& field :
         {timed(m.seconds), timed(m.low), timed(m.high), std::to_string(m.launches),
          m.relative > 0 ? number(m.relative) : "", t.predicted > 0 ? number(t.predicted) : "",
          i < data.expected.size() ? number(data.expected[i]) : "", number(t.at_seconds),
          number(m.compile_seconds), number(m.run_seconds)})
      csv += ',' + field;
    for (std::size_t k = 0; k < data.knobs.size(); ++k)
      csv += ',' + (k < t.point.size() ? csv_field(value_text(data.knobs[k], t.point[k])) : "");
    for (const std::string& fact : facts) {
      const auto at = m.facts.find(fact);
      csv += ',' + (at == m.facts.end() ? "" : number(at->second));
    }
    for (const ReportColumn& column : data.columns)
      csv += ',' + (i < column.values.size() ? number(column.values[i]) : "");
    csv += ',' + csv_field(m.error) + '\n';
  }
  return csv;
}

} // namespace kiln::tune
