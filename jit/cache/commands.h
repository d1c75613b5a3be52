// Implements `kiln cache ls`, `kiln cache clear` and `kiln cache verify`.
#pragma once

#include <kiln/jit/cache/disk_cache.h>

#include <string>

namespace kiln::cache {

struct CommandResult {
  std::string text; // for stdout
  int exit_code = 0;
};

CommandResult ls_command(DiskCache& cache);
CommandResult clear_command(DiskCache& cache);                  // exit code 1 if entries could not be removed
CommandResult verify_command(DiskCache& cache, BadEntries bad); // exit code 1 if bad entries remain

} // namespace kiln::cache
