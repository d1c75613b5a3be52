// Saves what a target's tool or driver refused, so that it can be tried again outside of Kiln. Not for users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct ReproFile {
  std::string name; // "kernel.ptx"
  std::string_view contents;
};

// Writes the files into a new folder `repro-NAME` (with a number if there is one already) of KILN_KEEP_DIR,
// and says in a clause for the error's message where they are: "saved in kiln-keep/repro-add", or why they
// are not. Never throws but for want of memory. Thread-safe.
std::string save_repro(std::string_view name, const std::vector<ReproFile>& files);

} // namespace kiln
