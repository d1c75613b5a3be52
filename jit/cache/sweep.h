// Keeps a cache folder below its size limit, and removes abandoned files.
#pragma once

#include <kiln/jit/cache/folder.h>

#include <chrono>
#include <cstdint>

namespace kiln::cache {

struct SweepReport {
  std::uint64_t entries_removed = 0;
  std::uint64_t bytes_removed = 0;
  std::uint64_t leftovers_removed = 0; // temporary files of processes that have ended
  std::uint64_t entries_left = 0;
  std::uint64_t bytes_left = 0;
};

// Removes abandoned files, and, if the entries exceed the limit, the least recently used ones until the rest
// fills 7/8 of it, so that the next store does not exceed it again. Readers, writers and other sweeps may run
// at the same time: a reader keeps the file that it has opened, and an entry that is gone is compiled again.
SweepReport sweep(const Folder& folder, std::uint64_t limit);

// Sweeps if no process has done so during `interval`, according to a stamp file in the folder. Returns
// whether it swept.
bool sweep_if_due(const Folder& folder, std::uint64_t limit, std::chrono::seconds interval,
                  SweepReport& report);

// Removes all entries and all abandoned files.
SweepReport remove_all(const Folder& folder);

} // namespace kiln::cache
