// The tuner's records on disk, shared by all processes of a user, and by several machines where the folder
// is.
//
//   FOLDER/rec/KERNEL-IR/SILICON/HOST-PID-TIME.jsonl   every trial: append-only lines, see line.h
//   FOLDER/best/KERNEL-SPACE/ID.json                   what is used: one line, replaced by rename
//   FOLDER/lock                                        held by what rewrites segments, see maintenance.h
//
// Nobody waits for anybody: a process appends to segments of its own, each record with one write(2), and
// readers skip what is damaged, half written or of a later version, and count it. A process may be killed at
// any time: what append() said is stored stays stored. (After a power cut the last seconds may be lost; a
// best config is synced.)
//
// It never fails: a folder that cannot be written to costs one warning, and tuning works on without storing.
// A folder that others own or can write to is refused, as the kernel cache refuses it. Nothing throws but for
// lack of memory.
//
// All calls may come from any number of threads. A forked child appends to segments of its own.
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

// Which records; what is empty takes all.
struct Filter {
  std::string kernel;
  std::optional<cache::Key> ir, space;
  std::string silicon, backend;
  std::string kind;
  std::optional<cache::Key> key; // RecordKey::id()

  static Filter of(const RecordKey& key); // records that answer this very question
  bool admits(const RecordKey& key) const;
};

struct LoadCounts {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;    // that the filter admits, each once
  std::uint64_t duplicates = 0; // the same line again
  std::uint64_t bad = 0;        // damaged, or no record
  std::uint64_t torn = 0;       // no newline at a segment's end: a writer died, or is about to end the line
  std::uint64_t future = 0;     // of a later version of Kiln
};

struct Loaded {
  std::vector<Record> records; // of a segment in the order written
  LoadCounts counts;
};

// Where a reader is: given to load() again, it gives only what came since.
struct LoadCursor {
  std::map<std::string, std::uint64_t> offsets;
  IdSet ids;
};

class RecordStore {
public:
  // Touches no disk yet. An empty path stores nothing.
  explicit RecordStore(std::filesystem::path folder);
  RecordStore(const RecordStore&) = delete;

  // "tune/v1" in the folder of the kernel cache: $KILN_CACHE_DIR, $XDG_CACHE_HOME/kiln or ~/.cache/kiln.
  static std::filesystem::path standard_folder();
  static RecordStore& standard(); // lives until the process ends
  const std::filesystem::path& path() const { return path_; }

  // What append() calls this process.
  static std::string session();
  // Once it returned true, the record survives this process, however that ends. Fills in time and session.
  bool append(Record record);
  Loaded load(const Filter& filter = {}, LoadCursor* since = nullptr);

  // What is used for a key: read from disk, one small file. Null if there is none.
  std::shared_ptr<const Record> best(const RecordKey& key);
  // Of all keys of a kernel and a space; of all kernels if the name is empty.
  std::vector<std::shared_ptr<const Record>> bests(const std::string& kernel = {},
                                                   std::optional<cache::Key> space = {});
  bool publish_best(const Record& record); // replaces what was there

  // For what looks after the folder. Null: there is none, or it is refused.
  std::shared_ptr<const cache::Folder> folder(cache::IfMissing if_missing);
  struct Segment {
    std::shared_ptr<const cache::Folder> folder;
    std::string kernel_folder, silicon_folder, name;
    std::string label() const { return kernel_folder + '/' + silicon_folder + '/' + name; }
  };
  std::vector<Segment> segments(const Filter& filter = {});
  // Calls read(segment), which says whether the segment could be opened, for all of a list that segments()
  // gave, and for what took the place of those that were rewritten meanwhile. How many could not be opened.
  std::size_t for_each_segment(const Filter& filter, const std::vector<Segment>& list,
                               const std::function<bool(const Segment&)>& read);
  // A line as it is, newline excluded, to a segment of this process.
  bool append_line(const std::string& kernel_folder, const std::string& silicon_folder,
                   std::string_view line);

  static std::string kernel_folder_of(const RecordKey& key);
  static std::string silicon_folder_of(const RecordKey& key);
  static std::string best_folder_of(const std::string& kernel, cache::Key space);

private:
  struct Writer {
    File file;
    std::uint64_t size = 0;
    bool torn = false; // a failed write left half a line
  };
  int write_line(const std::string& kernel_folder, const std::string& silicon_folder, std::string_view line);
  int open_writer(const std::string& kernel_folder, const std::string& silicon_folder, Writer& writer);
  void warn_of(int error);

  std::filesystem::path path_;
  std::mutex mutex_; // guards what follows
  std::shared_ptr<const cache::Folder> folder_;
  bool off_ = false, warned_ = false;
  std::map<std::string, Writer> writers_;
  long writers_process_ = 0;
};

// The best of each question, from records alone: the fastest config that never gave a wrong result, of the
// confirmed ones if there are any. A config's newest measurement counts.
std::vector<std::shared_ptr<const Record>> winners(const std::vector<Record>& records);

} // namespace kiln::tune
