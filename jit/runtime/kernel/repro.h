// Saves code that a driver or ptxas rejected, so that it can be tried outside of Kiln. Internal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct ReproFile {
  std::string name; // "kernel.ptx"
  std::string_view contents;
};

// Writes the files into a new folder `repro-NAME` (with a number if that exists) in KILN_KEEP_DIR. Returns a
// clause for an error message: "saved in kiln-keep/repro-add", or why the files could not be saved. Throws
// only std::bad_alloc. Thread-safe.
std::string save_repro(std::string_view name, const std::vector<ReproFile>& files);

} // namespace kiln
