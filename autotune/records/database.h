// Looks up the config to use: first in wisdom files, then in the records of this machine's tuning.
//
//   Database& known = Database::standard();
//   Lookup found = known.find_best(key);
//   if (found.trusted()) run(config_of(found.record->config));
//   else if (found.record) confirm(found);         // other tool versions: at most eight trials
//   else search(found.neighbours);                 // use them as seeds, or the analytic model's choice
//
// The order is: the user's files (KILN_WISDOM, a list of paths separated by ':'), the program's files
// (add_wisdom), the records on disk. Among these, a record that was made with the same tool versions takes
// precedence over one that was not. Records stay in memory once read. A config that another process publishes
// is seen after refresh() or, if none was found before, after two seconds.
//
// Thread-safe.
#pragma once

#include <kiln/autotune/records/store.h>
#include <kiln/autotune/records/wisdom.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::tune {

enum class Source : std::uint8_t { none, user, project, cache };
const char* name(Source source); // "the user's wisdom", ...

// A config for another key, which may also be good for this one.
struct Neighbour {
  std::shared_ptr<const Record> record;
  double distance = 0; // in doublings of sizes, plus a penalty if more than sizes differ
  Source source = Source::none;
};

struct Lookup {
  Source source = Source::none;
  std::shared_ptr<const Record> record; // null: nothing is known for this key
  bool same_tools = false;              // the soft parts of the keys agree
  bool confirmed = false;               // a complete tuning run chose it
  bool verified = false;                // by the present rules (verification_version)
  std::vector<Neighbour> neighbours;    // nearest first; only if there is no trusted record

  explicit operator bool() const { return record != nullptr; }
  bool trusted() const { return record && same_tools && confirmed && verified; }
};

class Database {
public:
  explicit Database(RecordStore& store);
  Database(const Database&) = delete;
  // Uses RecordStore::standard() and the files of KILN_WISDOM. Lives until the process ends.
  static Database& standard();

  // Takes less than a microsecond for a key that was looked up before with a trusted result. For an unknown
  // key it reads the folder and, if tuning runs were interrupted, their records, once for all problems of the
  // kernel.
  Lookup find_best(const RecordKey& key);
  // The same for a caller that has the key's id.
  Lookup find_best(const RecordKey& key, const cache::Key& id);
  // Returns false if nothing is recorded for any problem of the kernel in this space, whatever its IR. Reads the
  // folder at most every two seconds.
  bool knows(const std::string& kernel, const cache::Key& space);
  // Looks only in wisdom files, even if the records on disk have a better config; returns no neighbours.
  Lookup find_wisdom(const RecordKey& key);
  // Returns winners for other sizes, other silicon and older code, for the same kernel and space.
  std::vector<Neighbour> neighbours(const RecordKey& key, std::size_t most = 4);

  // Uses the record from now on, at least in this process. Returns false if it could not be stored.
  bool publish(Record confirmed);
  // Returns the number of records in the file. Throws UserError for a file that cannot be read or is not a
  // wisdom file; invalid records in it cause one warning.
  std::size_t add_wisdom(const std::filesystem::path& path);
  void add_wisdom(const std::vector<std::shared_ptr<const Record>>& records, Source source);
  std::vector<std::shared_ptr<const Record>> wisdom(); // the records of all files
  // Forgets what was read from disk.
  void refresh();
  // Repeats lookups that found nothing, since this process has stored records.
  void look_again();
  // Counts changes by this process. Callers that cache results must look up again when it has grown.
  std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

  RecordStore& store() { return store_; }

private:
  using Records = std::vector<std::shared_ptr<const Record>>;
  struct Answer {
    std::shared_ptr<const Record> record; // null: there was none
    double read_at = 0;
  };
  // Results of interrupted tuning runs of one kernel: measured, but not confirmed.
  struct Unconfirmed {
    std::unordered_map<cache::Key, std::shared_ptr<const Record>> winners; // by RecordKey::id()
    std::uint64_t bytes = 0;                                               // of the segments that were read
    double read_at = 0;
  };
  struct Listing {
    std::shared_ptr<const Records> records; // the best of each problem
    bool unconfirmed = false; // there are records of tuning runs, which may have been interrupted
    double read_at = 0;
  };
  void consider_wisdom(const RecordKey& key, const cache::Key& id, Lookup& best);
  static cache::Key family_of(const RecordKey& key);
  std::shared_ptr<const Record> from_store(const RecordKey& key, const cache::Key& id);
  std::shared_ptr<const Record> from_segments(const RecordKey& key, const cache::Key& id);
  std::shared_ptr<const Unconfirmed> unconfirmed_of(const RecordKey& key);
  Listing stored_family(const RecordKey& key);

  RecordStore& store_;
  std::atomic<std::uint64_t> changes_{0};
  std::shared_mutex mutex_;                           // guards the members below
  std::unordered_map<cache::Key, Records> wisdom_[2]; // user, project; by RecordKey::id()
  std::unordered_map<cache::Key, Records> families_[2];
  std::unordered_map<cache::Key, Answer> answers_;
  std::unordered_map<cache::Key, Listing> listings_;
  std::unordered_map<cache::Key, std::shared_ptr<const Unconfirmed>> unconfirmed_; // by kernel and silicon
  std::unordered_map<cache::Key, std::shared_ptr<const Record>> own_; // published by this process
};

// Returns the distance between the keys of a record and of a lookup; infinite if nothing can be reused.
double distance(const RecordKey& from, const RecordKey& to);

} // namespace kiln::tune
