// Looks after a record store: fewer and smaller files, records from elsewhere, and what is damaged.
//
// Segments that a living process appends to are left as they are: it holds their lock. One process rewrites
// at a time. A rewritten segment is published before what it replaces goes, and readers drop duplicates, so
// that nothing is lost and nobody waits, wherever a process is killed.
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
  bool busy = false;   // nothing was done, since another process rewrites, or:
  std::string problem; // why the folder cannot be locked; empty: it can
  std::uint64_t segments_before = 0, segments_after = 0;
  std::uint64_t live = 0; // segments of living processes, left as they are
  std::uint64_t kept = 0, removed = 0, duplicates = 0, bad = 0;
  std::uint64_t future = 0; // of a later version of Kiln, kept
  std::uint64_t bests_removed = 0;
  std::uint64_t failed = 0; // folders that could not be written: they stay as they were
};

// Puts the segments of each kernel and silicon together and drops duplicates and damaged lines.
RewriteReport compact(RecordStore& store);

// Which records go. A question's fastest record stays as long as its newest does.
struct PruneRules {
  std::optional<double> older_than_days;
  std::optional<std::size_t> keep_newest; // of each question
  bool stale_code_generation = false;     // made with another version of code generation than this one
};
RewriteReport prune(RecordStore& store, const PruneRules& rules);

struct Damage {
  std::string file; // within the store
  std::uint64_t line = 0;
  std::string problem;
};
struct VerifyReport {
  std::uint64_t segments = 0, good = 0, duplicates = 0, future = 0, bests = 0;
  std::vector<Damage> damage;
  std::uint64_t leftovers = 0; // temporary files of processes that ended
  std::uint64_t repaired = 0;  // of `damage` and leftovers
  bool busy = false;           // as of RewriteReport
  std::string problem;
};
enum class Repair { no, yes }; // yes: damaged lines and files go, and bests are found anew from records
VerifyReport verify(RecordStore& store, Repair repair);
// Publishes the best confirmed config of each question that has none published; how many, and how many could
// not be.
struct FoundBests {
  std::uint64_t published = 0, failed = 0;
};
FoundBests publish_missing_bests(RecordStore& store);

struct MergeReport {
  std::uint64_t added = 0, known = 0, bad = 0, future = 0, bests = 0, failed = 0;
  std::string problem; // why nothing was read
};
// Copies what the other store has and this one has not; again, and nothing changes. The faster best stays.
MergeReport merge(RecordStore& store, const std::filesystem::path& other_folder);
// The same from an exported file's text: record lines, or wisdom.
MergeReport import_text(RecordStore& store, std::string_view text);

// Record lines, each once, ordered by time.
std::string export_lines(RecordStore& store, const Filter& filter);
// What is used for each question: published, or else found from the records.
std::vector<std::shared_ptr<const Record>> export_winners(RecordStore& store, const Filter& filter);

} // namespace kiln::tune
