// Reads what the database knows before a search: good configs for its key, and records of similar problems.
#pragma once

#include <kiln/autotune/search/strategy.h>
#include <kiln/autotune/space/space.h>

#include <vector>

namespace kiln::tune {

struct Machine;
struct RecordKey;
struct Task;

// Returns the config found for this key, perhaps with other tool versions, then the configs of neighbouring
// problems.
std::vector<Point> favourites_of(const RecordKey& key, const BoundSpace& space);

// Records of other problems, in the columns that a search learns from. All problems contribute equally many
// at most, and each its newest.
struct SiblingRecords {
  std::vector<Sibling> siblings;
  int bad_records = 0;
};
SiblingRecords siblings_of(const Task& task, const BoundSpace& space, const Machine& machine);

} // namespace kiln::tune
