// Explains why a launch uses a config: the records that are known for its key, and the choice that follows
// from them.
#pragma once

#include <kiln/autotune/records/database.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

struct Why {
  RecordKey key;
  Lookup found;
  std::vector<std::string> tools_changed;      // since the record was made
  std::vector<Neighbour> neighbours;           // also if there is a record for this key
  std::size_t trials = 0;                      // recorded for this key
  std::size_t configs = 0;                     // different configs among them
  std::map<std::string, std::size_t> failures; // by status
  std::string verdict;                         // a sentence that says which config is used, and why
};

Why why(Database& database, const RecordKey& key);
std::string text_of(const Why& why);

// Returns the key of the newest record or wisdom of a kernel; records of this kind of device take precedence.
// `kind` may be empty to match any.
std::optional<RecordKey> newest_key(Database& database, const std::string& kernel, const std::string& kind,
                                    Device device);

// Makes the key for a problem of a kernel if the kernel itself is not available: its code and space are those
// of the newest record of a kernel with this name. `problem.kind` may be empty to use that record's. Returns
// nothing if there is no record or wisdom of the kernel.
std::optional<RecordKey> guess_key(Database& database, const std::string& kernel, const Problem& problem,
                                   Device device);

} // namespace kiln::tune
