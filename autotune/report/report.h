// The report of a tuning run: one HTML file that needs nothing else, and its trials as CSV.
//
//   write_report(report_data(tuning), "tune.html"); // or a table's replay: fill ReportData as far as known
//
// Pure functions of their input, which may hold any bytes: texts that are not UTF-8 have those bytes
// replaced, numbers that are not finite are left out.
#pragma once

#include <kiln/autotune/report/report_data.h>

#include <cstdint>
#include <string>

namespace kiln::tune {

std::string report_html(const ReportData& data);
std::string report_html(const Tuning& tuning);
// A line for each trial: what was tried, why, what came of it.
std::string trials_csv(const ReportData& data);

// As the end of a file's name asks for it: .csv, .html, or none for a page. UserError for another end.
enum class ReportKind : std::uint8_t { page, table };
ReportKind report_kind(const std::string& path);

// A page or a table of trials, as the name says. UserError as above, and if the file cannot be written; an
// old one is then left as it was.
void write_report(const ReportData& data, const std::string& path);

} // namespace kiln::tune
