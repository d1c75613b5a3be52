// Implements appending, loading and publishing of tuning records.
#include <kiln/autotune/records/store.h>

#include <kiln/jit/base/log.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <unordered_map>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {
namespace {

using cache::Folder;
using cache::IfMissing;

constexpr std::uint64_t most_best_bytes = most_line_bytes;

std::string short_hash(const cache::Key& key) { return to_string(key).substr(0, 12); }

std::int64_t now_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::shared_ptr<const Folder> subfolder(const std::shared_ptr<const Folder>& parent, const std::string& name,
                                        IfMissing if_missing) {
  return parent ? open_subfolder(*parent, name, if_missing) : nullptr;
}

} // namespace

// A forked child has another id. The string is never destroyed, since a search in the background may
// record while the process exits.
std::string RecordStore::session() {
  static const std::string& start = *new std::string(unique_name());
  return short_hash(cache::KeyBuilder().add(start).add(getpid()).key());
}

Filter Filter::of(const RecordKey& key) {
  Filter filter;
  filter.kernel = key.kernel;
  filter.ir = key.ir;
  filter.space = key.space;
  filter.silicon = key.silicon;
  filter.backend = key.backend;
  filter.kind = key.problem.kind;
  filter.key = key.id();
  return filter;
}

bool Filter::admits(const RecordKey& k) const {
  return (kernel.empty() || k.kernel == kernel) && (!ir || k.ir == *ir) && (!space || k.space == *space) &&
         (silicon.empty() || k.silicon == silicon) && (backend.empty() || k.backend == backend) &&
         (kind.empty() || k.problem.kind == kind) && (!key || k.id() == *key);
}

RecordStore::RecordStore(std::filesystem::path folder) : path_(std::move(folder)), off_(path_.empty()) {
  std::error_code error;
  if (off_) return;
  if (std::filesystem::path absolute = std::filesystem::absolute(path_, error); !error)
    path_ = std::move(absolute);
}

std::filesystem::path RecordStore::standard_folder() {
  const std::filesystem::path cache = cache::standard_folder();
  return cache.empty() ? cache : cache / "tune" / "v1";
}

RecordStore& RecordStore::standard() {
  static RecordStore& store = *new RecordStore(standard_folder());
  return store;
}

std::string RecordStore::kernel_folder_of(const RecordKey& key) {
  return file_word(key.kernel) + '-' + short_hash(key.ir);
}
std::string RecordStore::silicon_folder_of(const RecordKey& key) {
  return short_hash(cache::KeyBuilder().add(key.silicon).add(key.backend).key());
}
std::string RecordStore::best_folder_of(const std::string& kernel, cache::Key space) {
  return file_word(kernel) + '-' + short_hash(space);
}

std::shared_ptr<const Folder> RecordStore::folder(IfMissing if_missing) {
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    if (folder_ || off_) return folder_;
    cache::OpenFolder opened = cache::open_folder(path_, if_missing);
    folder_ = opened.folder;
    if (opened.problem.empty()) return folder_;
    off_ = true;
    problem = std::move(opened.problem);
  }
  log_warning("tuning records are neither stored nor read by this process: " + problem);
  return nullptr;
}

void RecordStore::warn_of(int error) {
  {
    const std::lock_guard lock(mutex_);
    if (warned_ || off_) return;
    warned_ = true;
  }
  log_warning(
      fmt::format("tuning records cannot be stored in {} ({}) and will be lost when this process ends; free "
                  "some space or set KILN_CACHE_DIR to a folder that can be written",
                  path_.string(), std::strerror(error)));
}

int RecordStore::open_writer(const std::string& kernel_folder, const std::string& silicon_folder,
                             Writer& writer) {
  const auto rec = subfolder(folder_, "rec", IfMissing::create);
  const auto parent = subfolder(rec, kernel_folder, IfMissing::create);
  const auto own = subfolder(parent, silicon_folder, IfMissing::create);
  if (!own) return errno ? errno : ENOENT;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string name = unique_name() + ".jsonl";
    File file(openat(own->descriptor(), name.c_str(),
                     O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file && errno == EEXIST) continue;
    if (!file) return errno;
    // The lock shows processes that rewrite segments that this one is in use. On a file system without locks
    // they rewrite nothing.
    if (!try_lock(file.get()) && (errno == EAGAIN || errno == EACCES)) continue;
    writer = Writer{};
    writer.file = std::move(file);
    return 0;
  }
  return EEXIST;
}

int RecordStore::write_line(const std::string& kernel_folder, const std::string& silicon_folder,
                            std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (const long process = getpid(); process != writers_process_) {
    writers_.clear(); // the parent's writers
    writers_process_ = process;
  }
  Writer& writer = writers_[kernel_folder + '/' + silicon_folder];
  struct stat status;
  const bool usable = writer.file && writer.size < full_segment_bytes &&
                      fstat(writer.file.get(), &status) == 0 && status.st_nlink != 0; // it was not removed
  if (!usable)
    if (const int error = open_writer(kernel_folder, silicon_folder, writer)) return error;
  std::string bytes = writer.torn ? "\n" : "";
  bytes += line;
  if (bytes.back() != '\n') bytes += '\n';
  if (exceeds_file_limit(writer.size, bytes.size())) return EFBIG;
  std::size_t written = 0;
  if (const int error = write_once(writer.file.get(), bytes, written)) {
    if (written != 0 && ftruncate(writer.file.get(), static_cast<off_t>(writer.size)) != 0) {
      writer.size += written;
      writer.torn = true;
    }
    return error;
  }
  writer.size += written;
  writer.torn = false;
  return 0;
}

bool RecordStore::append_line(const std::string& kernel_folder, const std::string& silicon_folder,
                              std::string_view line) {
  if (!folder(IfMissing::create)) return false;
  const int error = write_line(kernel_folder, silicon_folder, line);
  if (error) warn_of(error);
  return error == 0;
}

bool RecordStore::append(Record record) {
  if (!folder(IfMissing::create)) return false;
  if (record.time == 0) record.time = now_milliseconds();
  if (record.session.empty()) record.session = session();
  std::string line = to_line(record);
  if (line.empty()) {
    record.result.facts.clear();
    line = to_line(record);
  }
  if (line.empty()) {
    warn_of(EMSGSIZE);
    return false;
  }
  return append_line(kernel_folder_of(*record.key), silicon_folder_of(*record.key), line);
}

std::vector<RecordStore::Segment> RecordStore::segments(const Filter& filter) {
  std::vector<Segment> list;
  const auto rec = subfolder(folder(IfMissing::leave), "rec", IfMissing::leave);
  if (!rec) return list;
  const std::string kernel = filter.kernel.empty() ? "" : file_word(filter.kernel) + '-';
  const std::string ir = filter.ir ? short_hash(*filter.ir) : "";
  std::string silicon;
  if (!filter.silicon.empty() && !filter.backend.empty()) {
    RecordKey key;
    key.silicon = filter.silicon, key.backend = filter.backend;
    silicon = silicon_folder_of(key);
  }
  for (const std::string& kernel_folder : subfolders(*rec)) {
    if (!kernel_folder.starts_with(kernel) || !kernel_folder.ends_with(ir)) continue;
    const auto parent = subfolder(rec, kernel_folder, IfMissing::leave);
    if (!parent) continue;
    for (const std::string& silicon_folder : subfolders(*parent)) {
      if (!silicon.empty() && silicon_folder != silicon) continue;
      const auto own = subfolder(parent, silicon_folder, IfMissing::leave);
      if (!own) continue;
      std::vector<std::string> names = own->file_names();
      std::sort(names.begin(), names.end());
      for (std::string& name : names)
        if (name.ends_with(".jsonl") && name[0] != '.')
          list.push_back({own, kernel_folder, silicon_folder, std::move(name)});
    }
  }
  return list;
}

std::size_t RecordStore::for_each_segment(const Filter& filter, const std::vector<Segment>& list,
                                          const std::function<bool(const Segment&)>& read) {
  // A rewritten segment is published before the ones that it replaces are removed. If a segment is gone, list
  // all again.
  constexpr int most_rounds = 8;
  std::set<std::string> done, missing, missing_before;
  const auto visit = [&](const std::vector<Segment>& segments) {
    missing.clear();
    for (const Segment& segment : segments)
      if (std::string label = segment.label(); !done.contains(label))
        (read(segment) ? done : missing).insert(std::move(label));
  };
  visit(list);
  for (int round = 1; !missing.empty() && missing != missing_before && round < most_rounds; ++round) {
    missing_before = missing;
    visit(segments(filter));
  }
  return missing.size();
}

Loaded RecordStore::load(const Filter& filter, LoadCursor* since) {
  Loaded loaded;
  LoadCursor fresh;
  LoadCursor& cursor = since ? *since : fresh;
  LineReader reader;
  const std::vector<Segment> list = segments(filter);
  std::uint64_t bytes = 0;
  for (const Segment& segment : list) {
    std::uint64_t size = 0;
    if (open_regular(*segment.folder, segment.name, &size))
      bytes += size - std::min(size, cursor.offsets[segment.label()]);
  }
  // Reserves memory for the usual number of records, but not too much for a file of garbage.
  const std::size_t expected = std::min<std::uint64_t>(bytes / 500, 1 << 20);
  loaded.records.reserve(expected);
  cursor.ids.reserve(cursor.ids.size() + expected);
  loaded.counts.bad += for_each_segment(filter, list, [&](const Segment& segment) {
    std::uint64_t& offset = cursor.offsets[segment.label()];
    const LinesRead lines = for_each_line(
        *segment.folder, segment.name,
        [&](std::string_view line) {
          cache::Key id;
          const LineState state = check_line(line, &id);
          if (state != LineState::good) {
            ++(state == LineState::future ? loaded.counts.future : loaded.counts.bad);
            return;
          }
          if (!cursor.ids.insert(id)) {
            ++loaded.counts.duplicates;
            return;
          }
          Record& record = loaded.records.emplace_back();
          const bool read = reader.read_into(line, record);
          if (!read) ++loaded.counts.bad;
          if (!read || !filter.admits(*record.key)) loaded.records.pop_back();
        },
        offset);
    loaded.counts.segments += lines.opened;
    loaded.counts.torn += lines.torn;
    offset = lines.next;
    return lines.opened;
  });
  loaded.counts.records = loaded.records.size();
  return loaded;
}

namespace {

std::shared_ptr<const Record> read_best(const Folder& folder, const std::string& name) {
  const std::optional<std::string> bytes = read_file(folder, name, 0, most_best_bytes);
  if (!bytes || bytes->empty() || bytes->back() != '\n') return nullptr;
  const std::string_view line = std::string_view(*bytes).substr(0, bytes->size() - 1);
  if (line.find('\n') != line.npos || check_line(line) != LineState::good) return nullptr;
  std::shared_ptr<Record> record = LineReader().read(line);
  // Ignore a file whose name is not its record's id.
  if (!record || name != to_string(record->key->id()) + ".json") return nullptr;
  return record;
}

} // namespace

std::shared_ptr<const Record> RecordStore::best(const RecordKey& key) {
  const auto parent = subfolder(folder(IfMissing::leave), "best", IfMissing::leave);
  const auto own = subfolder(parent, best_folder_of(key.kernel, key.space), IfMissing::leave);
  if (!own) return nullptr;
  const std::string name = to_string(key.id()) + ".json";
  auto record = read_best(*own, name);
  if (!record && open_regular(*own, name))
    log_warning_once(fmt::format("{} is ignored, since it is damaged or from a later version of Kiln; `kiln "
                                 "records verify --repair` removes damaged files",
                                 (own->path() / name).string()));
  return record;
}

std::vector<std::shared_ptr<const Record>> RecordStore::bests(const std::string& kernel,
                                                              std::optional<cache::Key> space) {
  std::vector<std::shared_ptr<const Record>> list;
  const auto parent = subfolder(folder(IfMissing::leave), "best", IfMissing::leave);
  if (!parent) return list;
  for (const std::string& name : subfolders(*parent)) {
    if (!kernel.empty() && !name.starts_with(file_word(kernel) + '-')) continue;
    if (space && !name.ends_with(short_hash(*space))) continue;
    const auto own = subfolder(parent, name, IfMissing::leave);
    if (!own) continue;
    std::vector<std::string> files = own->file_names();
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      if (!file.ends_with(".json") || is_temporary(file)) continue;
      auto record = read_best(*own, file);
      if (record && (kernel.empty() || record->key->kernel == kernel) &&
          (!space || record->key->space == *space))
        list.push_back(std::move(record));
    }
  }
  return list;
}

bool RecordStore::publish_best(const Record& given) {
  const auto root = folder(IfMissing::create);
  if (!root) return false;
  Record record = given;
  if (record.time == 0) record.time = now_milliseconds();
  if (record.session.empty()) record.session = session();
  std::string line = to_line(record);
  if (line.empty()) {
    record.result.facts.clear();
    line = to_line(record);
  }
  errno = 0;
  const auto parent = subfolder(root, "best", IfMissing::create);
  const auto own =
      subfolder(parent, best_folder_of(record.key->kernel, record.key->space), IfMissing::create);
  int error = line.empty() ? EMSGSIZE : own ? 0 : errno ? errno : ENOENT;
  if (!error) error = publish_file(*own, to_string(record.key->id()) + ".json", line);
  if (error) warn_of(error);
  return error == 0;
}

// A confirmed time is replaced only by a newer confirmed one or by a newer failure.
static bool replaces(const Record& record, const Record* newest) {
  if (!newest) return true;
  if (!record.result.ok() || record.confirmed == (newest->confirmed && newest->result.ok()))
    return record.time >= newest->time;
  return record.confirmed;
}

std::vector<std::shared_ptr<const Record>> winners(const std::vector<Record>& records) {
  struct Newest {
    const Record* record = nullptr;
    bool wrong = false;
  };
  struct KeyConfigs {
    std::unordered_map<std::string_view, Newest> configs;
    std::size_t order = 0;
  };
  std::unordered_map<cache::Key, KeyConfigs> keys;
  std::unordered_map<const RecordKey*, KeyConfigs*> known;
  for (const Record& record : records) {
    KeyConfigs*& of_key = known[record.key.get()];
    if (!of_key) {
      const auto [at, added] = keys.try_emplace(record.key->id());
      if (added) at->second.order = keys.size();
      of_key = &at->second;
    }
    Newest& newest = of_key->configs[record.config];
    newest.wrong |=
        record.result.status == Status::wrong_result || record.result.status == Status::not_a_number;
    if (replaces(record, newest.record)) newest.record = &record;
  }
  std::vector<std::pair<std::size_t, std::shared_ptr<const Record>>> found;
  for (const auto& [id, of_key] : keys) {
    const Record* best = nullptr;
    for (const auto& [config, newest] : of_key.configs) {
      const Record& r = *newest.record;
      if (newest.wrong || !r.result.ok() || !(r.result.seconds > 0)) continue;
      const auto rank = [](const Record& x) {
        return std::tuple(-x.key->tools.verification, !x.confirmed, x.result.seconds,
                          std::string_view(x.config));
      };
      if (!best || rank(r) < rank(*best)) best = &r;
    }
    if (best) found.emplace_back(of_key.order, std::make_shared<Record>(*best));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<const Record>> list;
  for (auto& [order, record] : found)
    list.push_back(std::move(record));
  return list;
}

} // namespace kiln::tune
