// Keeps a cache folder below its size limit and free of leftovers.
#pragma once

#include <kiln/jit/cache/folder.h>

#include <chrono>
#include <cstdint>

namespace kiln::cache {

struct SweepReport {
  std::uint64_t entries_removed = 0;
  std::uint64_t bytes_removed = 0;
  std::uint64_t leftovers_removed = 0; // temporary files of dead processes
  std::uint64_t entries_left = 0;
  std::uint64_t bytes_left = 0;
};

// Removes leftovers, and, if the entries exceed the limit, the least recently used ones until they fill 7/8
// of it: the next store must not push the cache over the limit at once. Harmless beside readers, writers and
// other sweeps: a reader keeps the file it opened, and an entry that is gone is compiled again.
SweepReport sweep(const Folder& folder, std::uint64_t limit);

// Sweeps if no process did so during the interval; a stamp file in the folder tells. True if it swept.
bool sweep_if_due(const Folder& folder, std::uint64_t limit, std::chrono::seconds interval,
                  SweepReport& report);

// Removes all entries, and leftovers.
SweepReport remove_all(const Folder& folder);

} // namespace kiln::cache
