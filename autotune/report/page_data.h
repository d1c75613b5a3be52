// Makes the data that the report's page draws.
#pragma once

#include <kiln/autotune/report/report_data.h>

#include <string>

namespace kiln::tune {

// Returns JSON; page/data.js describes its fields.
std::string page_data(const ReportData& data);

// Returns the result of the finalist with this point if there is one, else that of the fastest trial with
// this point, since a finalist's confirmation counts more than its trial. Returns null if the point was never
// measured.
const Measurement* result_of(const SearchResult& search, const Point& point);

// The seconds of a search by what they were spent on.
struct TimeSplit {
  double measure = 0, compile = 0, model = 0, idle = 0; // these add up to the whole time
  double compiler_seconds = 0;                          // the sum over all concurrent compilers
};
TimeSplit time_split(const SearchResult& search);

} // namespace kiln::tune
