// kiln records list and show: what was measured, by problem.
#pragma once

#include <kiln/autotune/records/store.h>

#include <string>

namespace kiln::cli {

struct ListOptions {
  bool json = false;
  bool all = false; // of `show`: failures and slow configs too
};

// A line for each problem. Returns the exit code, as the next one.
int list_records(tune::RecordStore& store, const tune::Filter& filter, const ListOptions& options);
// The records of a kernel, or of the key with these first digits; UserError if there are none.
int show_records(tune::RecordStore& store, const std::string& what, const ListOptions& options);

} // namespace kiln::cli
