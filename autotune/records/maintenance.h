// Maintains a record store: compacts, prunes, merges, exports, verifies and repairs it.
//
// Segments to which a running process appends are not touched: the process holds their lock. Only one process
// rewrites at a time. A rewritten segment is published before the segments that it replaces are removed, and
// readers drop duplicates. Hence nothing is lost and no process waits, whenever a process is killed.
#pragma once

#include <kiln/autotune/records/store.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

struct RewriteReport {
  bool busy = false;   // nothing was done, because another process rewrites or because of `problem`
  std::string problem; // why the folder cannot be locked; empty if it can
  std::uint64_t segments_before = 0, segments_after = 0;
  std::uint64_t in_use = 0; // segments of running processes, which are not touched
  std::uint64_t kept = 0, removed = 0, duplicates = 0, bad = 0;
  std::uint64_t future = 0; // from a later version of Kiln, kept
  std::uint64_t bests_removed = 0;
  std::uint64_t failed = 0; // folders that could not be written and stay unchanged
};

// Combines the segments of each kernel and silicon, and drops duplicates and damaged lines.
RewriteReport compact(RecordStore& store);

// Which records are removed. The fastest record of a key stays as long as the newest one.
struct PruneRules {
  std::optional<double> older_than_days;
  std::optional<std::size_t> keep_newest; // per key
  bool stale_code_generation = false;     // made with another version of code generation than the current one
};
RewriteReport prune(RecordStore& store, const PruneRules& rules);

struct Damage {
  std::string file; // path within the store
  std::uint64_t line = 0;
  std::string problem;
};
struct VerifyReport {
  std::uint64_t segments = 0, good = 0, duplicates = 0, future = 0, bests = 0;
  std::vector<Damage> damage;
  std::uint64_t leftovers = 0; // temporary files of processes that have ended
  std::uint64_t repaired = 0;  // number of repaired damages and removed leftovers
  bool busy = false;           // as in RewriteReport
  std::string problem;
};
enum class Repair { no, yes }; // yes: removes damaged lines and files, and finds bests again from records
VerifyReport verify(RecordStore& store, Repair repair);
// Publishes the best confirmed config of each key that has none published. Returns how many were published
// and how many could not be.
struct FoundBests {
  std::uint64_t published = 0, failed = 0;
};
FoundBests publish_missing_bests(RecordStore& store);

struct MergeReport {
  std::uint64_t added = 0, known = 0, bad = 0, future = 0, bests = 0, failed = 0;
  std::string problem; // why nothing was read, or empty
};
// Copies records that the other store has and this one lacks. Repeating it changes nothing. The faster best
// is kept.
MergeReport merge(RecordStore& store, const std::filesystem::path& other_folder);
// Imports an exported file's text: record lines, or wisdom.
MergeReport import_text(RecordStore& store, std::string_view text);

// Returns record lines without duplicates, ordered by time.
std::string export_lines(RecordStore& store, const Filter& filter);
// Returns the config in use for each key: the published one, or one found from the records.
std::vector<std::shared_ptr<const Record>> export_winners(RecordStore& store, const Filter& filter);

} // namespace kiln::tune
