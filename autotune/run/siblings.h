// What the database knows before a search: of its question, and of others like it.
#pragma once

#include <kiln/autotune/search/strategy.h>
#include <kiln/autotune/space/space.h>

#include <vector>

namespace kiln::tune {

struct Machine;
struct RecordKey;
struct Task;

// What did well for this question with other tools, and for others like it.
std::vector<Point> favourites_of(const RecordKey& key, const BoundSpace& space);

// Records of other problems, as the columns that a search learns from: of each problem its newest, and of
// all problems equally many.
struct Teachers {
  std::vector<Sibling> siblings;
  int bad_records = 0;
};
Teachers siblings_of(const Task& task, const BoundSpace& space, const Machine& machine);

} // namespace kiln::tune
