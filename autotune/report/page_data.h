// What the report's page is given to draw.
#pragma once

#include <kiln/autotune/report/report_data.h>

#include <string>

namespace kiln::tune {

// JSON; page/data.js says what is in it.
std::string page_data(const ReportData& data);

// The best finalist's result where there is one, else that of the fastest trial with this point; null if the
// point was never measured. A finalist's confirmation counts more than its trial.
const Measurement* result_of(const SearchResult& search, const Point& point);

// Where the seconds of a search went.
struct TimeSplit {
  double measure = 0, compile = 0, model = 0, idle = 0; // together: all seconds
  double compiler_seconds = 0;                          // of all compilers, side by side
};
TimeSplit time_split(const SearchResult& search);

} // namespace kiln::tune
