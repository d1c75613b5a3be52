// Implements `kiln records list` and `kiln records show`.
#pragma once

#include <kiln/autotune/records/store.h>

#include <string>

namespace kiln::cli {

struct ListOptions {
  bool json = false;
  bool all = false; // for `show`: also failures and slow configs
};

// Prints a line for each problem. Returns the exit code, as does show_records.
int list_records(tune::RecordStore& store, const tune::Filter& filter, const ListOptions& options);
// Shows the records of a kernel, or of the key that begins with these digits. Throws UserError if there are
// none.
int show_records(tune::RecordStore& store, const std::string& what, const ListOptions& options);

} // namespace kiln::cli
