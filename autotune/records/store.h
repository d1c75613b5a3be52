// Stores the tuner's records on disk.
//
// All processes of a user share the records, and several machines do if they share the folder.
//
//   FOLDER/rec/KERNEL-IR/SILICON/HOST-PID-TIME.jsonl   every trial: append-only lines, see line.h
//   FOLDER/best/KERNEL-SPACE/ID.json                   the config in use: one line, replaced by rename
//   FOLDER/lock                                        held while segments are rewritten, see maintenance.h
//
// No process waits for another: each appends to its own segments, with one write(2) per record. Readers skip
// and count lines that are damaged, incomplete or of a later version. A process may be killed at any time
// without losing records that append() has stored. (A power cut may lose those of the last seconds; best
// configs are synced.)
//
// Errors are not fatal: if a folder cannot be written, there is one warning, and tuning continues without
// storing. A folder that others own or can write to is rejected, as for the kernel cache. Nothing throws
// except if memory is exhausted.
//
// Thread-safe. A forked child appends to its own segments.
#pragma once

#include <kiln/autotune/records/files.h>
#include <kiln/autotune/records/id_set.h>
#include <kiln/autotune/records/line.h>
#include <kiln/jit/cache/folder.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tune {

// Selects records; empty members match all.
struct Filter {
  std::string kernel;
  std::optional<cache::Key> ir, space;
  std::string silicon, backend;
  std::string kind;
  std::optional<cache::Key> key; // RecordKey::id()

  static Filter of(const RecordKey& key); // the records of exactly this key
  bool admits(const RecordKey& key) const;
};

struct LoadCounts {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;    // admitted by the filter, without duplicates
  std::uint64_t duplicates = 0; // repetitions of a line
  std::uint64_t bad = 0;        // damaged, or not a record
  std::uint64_t torn = 0;       // no newline at a segment's end: the writer died or is still writing
  std::uint64_t future = 0;     // from a later version of Kiln
};

struct Loaded {
  std::vector<Record> records; // in the order of writing within a segment
  LoadCounts counts;
};

// The position of a reader: load() with the same cursor returns only newer records.
struct LoadCursor {
  std::map<std::string, std::uint64_t> offsets;
  IdSet ids;
};

class RecordStore {
public:
  // Does not access the disk yet. A store with an empty path stores nothing.
  explicit RecordStore(std::filesystem::path folder);
  RecordStore(const RecordStore&) = delete;

  // "tune/v1" in the folder of the kernel cache: $KILN_CACHE_DIR, $XDG_CACHE_HOME/kiln or ~/.cache/kiln.
  static std::filesystem::path standard_folder();
  static RecordStore& standard(); // lives until the process ends
  const std::filesystem::path& path() const { return path_; }

  // The id that append() gives to this process.
  static std::string session();
  // If this returns true, the record survives the end of this process in any way. Sets the time and the id
  // of the process if they are missing.
  bool append(Record record);
  Loaded load(const Filter& filter = {}, LoadCursor* since = nullptr);

  // Reads the config in use for a key from disk, which is one small file. Returns null if there is none.
  std::shared_ptr<const Record> best(const RecordKey& key);
  // Returns those of all keys of a kernel and a space, or of all kernels if the name is empty.
  std::vector<std::shared_ptr<const Record>> bests(const std::string& kernel = {},
                                                   std::optional<cache::Key> space = {});
  bool publish_best(const Record& record); // replaces the previous one

  // The folder, for maintenance. Null if it does not exist or is rejected.
  std::shared_ptr<const cache::Folder> folder(cache::IfMissing if_missing);
  struct Segment {
    std::shared_ptr<const cache::Folder> folder;
    std::string kernel_folder, silicon_folder, name;
    std::string label() const { return kernel_folder + '/' + silicon_folder + '/' + name; }
  };
  std::vector<Segment> segments(const Filter& filter = {});
  // Calls read(segment), which returns whether it could open the segment, for all segments in `list`, and for
  // those that replaced segments rewritten meanwhile. Returns how many could not be opened.
  std::size_t for_each_segment(const Filter& filter, const std::vector<Segment>& list,
                               const std::function<bool(const Segment&)>& read);
  // Appends an unchanged line, without its newline, to a segment of this process.
  bool append_line(const std::string& kernel_folder, const std::string& silicon_folder,
                   std::string_view line);

  static std::string kernel_folder_of(const RecordKey& key);
  static std::string silicon_folder_of(const RecordKey& key);
  static std::string best_folder_of(const std::string& kernel, cache::Key space);

private:
  struct Writer {
    File file;
    std::uint64_t size = 0;
    bool torn = false; // a failed write left an incomplete line
  };
  int write_line(const std::string& kernel_folder, const std::string& silicon_folder, std::string_view line);
  int open_writer(const std::string& kernel_folder, const std::string& silicon_folder, Writer& writer);
  void warn_of(int error);

  std::filesystem::path path_;
  std::mutex mutex_; // guards the members below
  std::shared_ptr<const cache::Folder> folder_;
  bool off_ = false, warned_ = false;
  std::map<std::string, Writer> writers_;
  long writers_process_ = 0;
};

// Finds the best config of each key from records: the fastest config without any wrong result, among the
// confirmed ones if there are any, and among those that were verified by the newest rules. The newest
// measurement of a config counts.
std::vector<std::shared_ptr<const Record>> winners(const std::vector<Record>& records);

} // namespace kiln::tune
