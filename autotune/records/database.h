// Which config to use, of all that is known: wisdom files first, then what this machine's tuning found.
//
//   Database& known = Database::standard();
//   Lookup found = known.find_best(key);
//   if (found.trusted()) run(config_of(found.record->config));
//   else if (found.record) confirm(found);         // other tools: at most eight trials
//   else search(found.neighbours);                 // seeds; or an analytic choice
//
// The order is: the user's files (KILN_WISDOM, a list of paths with ':' between), the program's
// (add_wisdom), the records on disk. Within it, an answer that was found with the same tools comes before one
// that was not. What was read stays in memory: an answer that another process publishes is seen after
// refresh(), or, where there was none, after two seconds.
//
// All calls may come from any number of threads.
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

// A config of another question that may do well for this one.
struct Neighbour {
  std::shared_ptr<const Record> record;
  double distance = 0; // in doublings of sizes, and more where more than sizes differs
  Source source = Source::none;
};

struct Lookup {
  Source source = Source::none;
  std::shared_ptr<const Record> record; // null: nothing is known of this very question
  bool same_tools = false;              // the soft parts of the keys agree
  bool confirmed = false;               // a tuning came to its end and chose it
  std::vector<Neighbour> neighbours;    // nearest first; only where there is no trusted record

  explicit operator bool() const { return record != nullptr; }
  bool trusted() const { return record && same_tools && confirmed; }
};

class Database {
public:
  explicit Database(RecordStore& store);
  Database(const Database&) = delete;
  // Over RecordStore::standard() and the files of KILN_WISDOM; lives until the process ends.
  static Database& standard();

  // Less than a microsecond where it was asked before and a trusted record was found. One that is not known
  // costs a look into the folder, and where tunings were interrupted the reading of their records, once for
  // all problems of the kernel.
  Lookup find_best(const RecordKey& key);
  // The same where the caller keeps the key's id.
  Lookup find_best(const RecordKey& key, const cache::Key& id);
  // What the files say, whatever the records on disk know better; no neighbours.
  Lookup find_wisdom(const RecordKey& key);
  // Winners of other sizes, of other silicon, and of older code, for the same kernel and space.
  std::vector<Neighbour> neighbours(const RecordKey& key, std::size_t most = 4);

  // Uses the record from now on, in this process at least; false if it could not be stored.
  bool publish(Record confirmed);
  // How many records it has. UserError for a file that cannot be read or is no wisdom; what single records
  // have wrong is one warning.
  std::size_t add_wisdom(const std::filesystem::path& path);
  void add_wisdom(const std::vector<std::shared_ptr<const Record>>& records, Source source);
  std::vector<std::shared_ptr<const Record>> wisdom(); // of all files
  // Forgets what it read from disk.
  void refresh();
  // Looks again for what it did not find: this process has stored records since.
  void look_again();
  // How often this process changed what is known: who keeps answers asks again when it has grown.
  std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

  RecordStore& store() { return store_; }

private:
  using Records = std::vector<std::shared_ptr<const Record>>;
  struct Answer {
    std::shared_ptr<const Record> record; // null: there was none
    double read_at = 0;
  };
  // What tunings of one kernel that were interrupted left: nobody confirmed it, but it was measured.
  struct Leftovers {
    std::unordered_map<cache::Key, std::shared_ptr<const Record>> winners; // by RecordKey::id()
    std::uint64_t bytes = 0;                                               // of the segments that it is from
    double read_at = 0;
  };
  struct Listing {
    std::shared_ptr<const Records> records;
    double read_at = 0;
  };
  void consider_wisdom(const RecordKey& key, const cache::Key& id, Lookup& best);
  static cache::Key family_of(const RecordKey& key);
  std::shared_ptr<const Record> from_store(const RecordKey& key, const cache::Key& id);
  std::shared_ptr<const Record> from_segments(const RecordKey& key, const cache::Key& id);
  std::shared_ptr<const Leftovers> leftovers_of(const RecordKey& key);
  std::shared_ptr<const Records> stored_family(const RecordKey& key);

  RecordStore& store_;
  std::atomic<std::uint64_t> changes_{0};
  std::shared_mutex mutex_;                           // guards what follows
  std::unordered_map<cache::Key, Records> wisdom_[2]; // user, project; by RecordKey::id()
  std::unordered_map<cache::Key, Records> families_[2];
  std::unordered_map<cache::Key, Answer> answers_;
  std::unordered_map<cache::Key, Listing> listings_;
  std::unordered_map<cache::Key, std::shared_ptr<const Leftovers>> leftovers_; // by kernel and silicon
  std::unordered_map<cache::Key, std::shared_ptr<const Record>> own_;          // published by this process
};

// How far a recorded question is from another one; infinite if nothing carries over.
double distance(const RecordKey& from, const RecordKey& to);

} // namespace kiln::tune
