// Fills the page's template with a report's data, and writes reports to files.
#include <kiln/autotune/report/report.h>

#include <kiln/autotune/report/page.h>
#include <kiln/autotune/report/page_data.h>
#include <kiln/autotune/report/text.h>
#include <kiln/autotune/write_file.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/text.h>

#include <filesystem>

namespace kiln::tune {

namespace {

// Replaces each {{name}} by its value in one pass, so that a {{name}} inside a value is not replaced.
std::string filled(std::string_view page,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string out;
  while (!page.empty()) {
    const std::size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [known, value] : values)
      if (known == name) out += value;
    page.remove_prefix(close + 2);
  }
  return out;
}

// Returns the text that a browser without scripts shows.
std::string summary(const ReportData& data) {
  const SearchResult& s = data.search;
  std::string text = std::to_string(s.trials.size()) + " trials in " + cli::time_text(s.seconds) + ". ";
  if (!s.best) return text + "No config worked.";
  return text + "Best: " + point_text(data.knobs, *s.best) + ", " + cli::time_text(s.best_result.seconds) +
         " a launch, with 95 % confidence from " + cli::time_text(s.best_result.low) + " to " +
         cli::time_text(s.best_result.high) +
         (s.is_confirmed(*s.best) ? "." : ", by one trial that was not confirmed.");
}

} // namespace

std::string report_html(const ReportData& data) {
  return filled(page_html, {{"title", html_text(data.kernel + " " + data.problem)},
                            {"summary", html_text(summary(data))},
                            {"style", page_css},
                            {"data", script_json(page_data(data))},
                            {"script", page_js}});
}

std::string report_html(const Tuning& tuning) { return report_html(report_data(tuning)); }

ReportKind report_kind(const std::string& path) {
  const std::string end = std::filesystem::path(path).extension().string();
  if (end == ".csv") return ReportKind::table;
  if (end.empty() || end == ".html") return ReportKind::page;
  throw UserError("--report " + path + ": a report is a page or a table; its name must end in .html or .csv");
}

void write_report(const ReportData& data, const std::string& path) {
  const bool table = report_kind(path) == ReportKind::table;
  write_file(path, table ? trials_csv(data) : report_html(data), "the report");
}

} // namespace kiln::tune
