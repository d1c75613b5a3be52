// Writes the report of a tuning run: one self-contained HTML file, or its trials as CSV.
//
//   write_report(report_data(tuning), "tune.html"); // for a table's replay, fill in the known members
//
// The texts for a ReportData depend on nothing else. The input may hold any bytes: in texts, bytes that are
// not UTF-8 are replaced; numbers that are not finite are left out.
#pragma once

#include <kiln/autotune/report/report_data.h>

#include <cstdint>
#include <string>

namespace kiln::tune {

std::string report_html(const ReportData& data);
std::string report_html(const Tuning& tuning);
// Returns a line for each trial: the config, why it was tried, and its result.
std::string trials_csv(const ReportData& data);

// Returns the kind that the extension of a file's name requests: a table for .csv, a page for .html or no
// extension. Throws UserError for any other extension.
enum class ReportKind : std::uint8_t { page, table };
ReportKind report_kind(const std::string& path);

// Writes a page or a table of trials, by report_kind(path). Throws UserError as report_kind does, and if the
// file cannot be written; an existing file then stays as it was.
void write_report(const ReportData& data, const std::string& path);

} // namespace kiln::tune
