// Why a config is used: what is known of a question, and what that leads to.
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
  std::vector<std::string> tools_changed;      // since it was recorded
  std::vector<Neighbour> neighbours;           // also where there is a record of this very question
  std::size_t trials = 0;                      // recorded for this question
  std::size_t configs = 0;                     // different ones
  std::map<std::string, std::size_t> failures; // by kind
  std::string verdict;                         // a sentence: which config, and why
};

Why why(Database& database, const RecordKey& key);
std::string text_of(const Why& why);

// The key of the newest record or wisdom of a kernel, before those of other kinds of devices. `kind` may be
// empty: any.
std::optional<RecordKey> newest_key(Database& database, const std::string& kernel, const std::string& kind,
                                    Device device);

// The question about a problem of a kernel on a device, for somebody who has no kernel at hand: its code and
// space are those of the newest record of a kernel of this name. `kind` may be empty: the newest record's.
// Nothing if no record and no wisdom knows the kernel.
std::optional<RecordKey> guess_key(Database& database, const std::string& kernel, const Problem& problem,
                                   Device device);

} // namespace kiln::tune
