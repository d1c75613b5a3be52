// Stores plans as records: choices among named options that are not configs of a kernel, such as the
// schedules of a product whose operands are sent meanwhile.
//
//   StoredPlan plan{.options = {{"serial", 4e-3, 4.1e-3}, {"ring, 4 chunks", 3e-3, 3.2e-3}}, .chosen = 1};
//   database.publish(record_of_plan(key, plan));
//   if (Lookup found = database.find_best(key); found.trusted())
//     if (std::optional<StoredPlan> known = plan_of(*found.record)) ...
//
// The key of a plan has no hash of tile IR. The name of the chosen option stands in place of the config, and
// the times of all options are in the record's facts, so that older versions of Kiln can list, merge and
// verify the record, too.
#pragma once

#include <kiln/autotune/records/record.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

struct StoredPlan {
  struct Option {
    std::string name;
    double forecast = 0, measured = -1; // seconds; -1: not measured
  };
  std::vector<Option> options = {}; // after reading: in the order of their names
  std::size_t chosen = 0;           // of the options; a measured one
  // Of the product alone and of the transfers alone, in seconds.
  double computation = 0, communication = 0;
  std::int64_t time = 0; // when it was measured, in milliseconds since 1970; 0: now
};

// Whether records with this key are plans.
inline bool is_of_plan(const RecordKey& key) { return key.ir == cache::Key(); }

Record record_of_plan(const RecordKey& key, const StoredPlan& plan);
// Returns nothing if the record is not a plan or is damaged: an option lacks one of its times, a time is
// negative, infinite or longer than a day, or the chosen option is missing or was not measured.
std::optional<StoredPlan> plan_of(const Record& record);

} // namespace kiln::tune
