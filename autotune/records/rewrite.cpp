// Rewrites segments, for compaction and pruning.
#include <kiln/autotune/records/maintenance.h>

#include <kiln/jit/base/version.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <unordered_map>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {
namespace {

constexpr std::uint64_t most_source_bytes = 1ull << 30;
constexpr std::int64_t settled_seconds = 600; // a younger empty segment may be about to be locked

struct Line {
  std::string_view text;
  cache::Key key_id;
  std::int64_t time = 0;
  double seconds = 0; // 0: not ok
  int code_generation = 0;
  bool future = false;
};

// A segment that no running process uses, which stays so while `lock` is held.
struct Held {
  std::string name;
  File lock;
  std::string bytes;
};

// Returns nothing for a segment that is in use.
std::optional<Held> hold(const RecordStore::Segment& segment) {
  Held held;
  held.name = segment.name;
  held.lock = File(openat(segment.folder->descriptor(), segment.name.c_str(),
                          O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status;
  if (!held.lock || fstat(held.lock.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  if (!try_lock(held.lock.get())) return std::nullopt;
  if (status.st_size == 0 && std::time(nullptr) - status.st_mtim.tv_sec < settled_seconds)
    return std::nullopt;
  std::optional<std::string> bytes = read_file(*segment.folder, segment.name, 0, most_source_bytes);
  if (!bytes) return std::nullopt;
  held.bytes = std::move(*bytes);
  return held;
}

using Choose = std::function<void(std::vector<Line>& lines)>; // removes what should go

// Rewrites the segments of one folder as few full ones.
void rewrite_folder(const cache::Folder& folder, std::vector<Held>& sources, const Choose& choose,
                    RewriteReport& report) {
  std::vector<Line> lines;
  IdSet seen;
  LineReader reader;
  std::uint64_t duplicates = 0, bad = 0;
  for (const Held& source : sources) {
    for (std::string_view rest = source.bytes; !rest.empty();) {
      const std::size_t end = rest.find('\n');
      const std::string_view text = rest.substr(0, end);
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
      cache::Key id;
      const LineState state = check_line(text, &id);
      if (state == LineState::bad) {
        ++bad;
      } else if (!seen.insert(id)) {
        ++duplicates;
      } else if (state == LineState::future) {
        lines.push_back({.text = text, .key_id = {}, .future = true});
      } else if (const auto record = reader.read(text)) {
        lines.push_back({.text = text,
                         .key_id = record->key->id(),
                         .time = record->time,
                         .seconds = record->result.ok() ? record->result.seconds : 0,
                         .code_generation = record->key->code_generation,
                         .future = false});
      } else {
        ++bad;
      }
    }
  }
  const std::size_t before = lines.size();
  choose(lines);
  const bool unchanged = sources.size() == 1 && !bad && !duplicates && lines.size() == before && before != 0;
  std::uint64_t segments = sources.size();
  if (!unchanged) {
    segments = 0;
    int error = 0;
    for (std::size_t at = 0; at < lines.size() && !error;) {
      std::string bytes;
      for (; at < lines.size() && bytes.size() < full_segment_bytes; ++at)
        (bytes += lines[at].text) += '\n';
      error = publish_file(folder, unique_name() + ".jsonl", bytes);
      ++segments;
    }
    if (error) { // segments already published contain only duplicates
      ++report.failed;
      report.segments_after += sources.size();
      report.kept += before;
      return;
    }
    for (const Held& source : sources)
      unlinkat(folder.descriptor(), source.name.c_str(), 0);
  }
  report.segments_after += segments;
  report.kept += lines.size();
  report.removed += before - lines.size();
  report.duplicates += duplicates;
  report.bad += bad;
  report.future += static_cast<std::uint64_t>(std::ranges::count_if(lines, &Line::future));
}

// Locks the store, so that only one process rewrites it. If that fails, the report says why.
File lock_for_rewriting(const cache::Folder& root, RewriteReport& report) {
  File lock(openat(root.descriptor(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const bool opened = static_cast<bool>(lock);
  if (opened && lock_within(lock.get(), 10)) return lock;
  const int error = errno;
  report.busy = true;
  if (!opened || (error != EAGAIN && error != EACCES)) // the lock is not held by another process
    report.problem =
        fmt::format("{} cannot be locked: {}", (root.path() / "lock").string(), std::strerror(error));
  return {};
}

RewriteReport rewrite(RecordStore& store, const Choose& choose) {
  RewriteReport report;
  const auto root = store.folder(cache::IfMissing::leave);
  if (!root) return report;
  const File lock = lock_for_rewriting(*root, report);
  if (!lock) return report;
  const std::vector<RecordStore::Segment> segments = store.segments();
  for (std::size_t first = 0; first < segments.size();) {
    std::vector<Held> sources;
    std::size_t end = first;
    for (; end < segments.size() && segments[end].folder == segments[first].folder; ++end) {
      ++report.segments_before;
      if (std::optional<Held> held = hold(segments[end])) {
        sources.push_back(std::move(*held));
      } else {
        ++report.in_use;
        ++report.segments_after;
      }
    }
    if (!sources.empty()) rewrite_folder(*segments[first].folder, sources, choose, report);
    first = end;
  }
  return report;
}

void remove_old(std::vector<Line>& lines, const PruneRules& rules, std::int64_t now) {
  struct KeyLines {
    std::vector<std::pair<std::int64_t, const Line*>> times; // newest first
    double fastest = 0;
    bool fastest_kept = false;
  };
  std::unordered_map<cache::Key, KeyLines> lines_by_key;
  const std::int64_t oldest = rules.older_than_days
                                  ? now - static_cast<std::int64_t>(*rules.older_than_days * 86'400'000.0)
                                  : INT64_MIN;
  const auto stale = [&](const Line& line) {
    return rules.stale_code_generation && line.code_generation != code_generation_version;
  };
  for (const Line& line : lines) {
    if (line.future || stale(line)) continue;
    KeyLines& of_key = lines_by_key[line.key_id];
    of_key.times.emplace_back(line.time, &line);
    if (line.seconds > 0 && (of_key.fastest == 0 || line.seconds < of_key.fastest))
      of_key.fastest = line.seconds;
  }
  for (auto& [id, of_key] : lines_by_key)
    std::sort(of_key.times.begin(), of_key.times.end(), std::greater<>());
  std::vector<bool> goes(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.future) continue;
    if (stale(line)) {
      goes[i] = true;
      continue;
    }
    KeyLines& of_key = lines_by_key[line.key_id];
    const bool forgotten = of_key.times.front().first < oldest;
    if (!forgotten && line.seconds > 0 && line.seconds == of_key.fastest && !of_key.fastest_kept) {
      of_key.fastest_kept = true;
      continue;
    }
    const auto& times = of_key.times;
    const bool crowded =
        rules.keep_newest && times.size() > *rules.keep_newest &&
        (*rules.keep_newest == 0 || std::pair(line.time, &line) < times[*rules.keep_newest - 1]);
    goes[i] = line.time < oldest || crowded;
  }
  std::size_t at = 0;
  std::erase_if(lines, [&](const Line&) { return goes[at++]; });
}

} // namespace

RewriteReport compact(RecordStore& store) {
  return rewrite(store, [](std::vector<Line>&) {});
}

RewriteReport prune(RecordStore& store, const PruneRules& rules) {
  const std::int64_t now = static_cast<std::int64_t>(std::time(nullptr)) * 1000;
  RewriteReport report = rewrite(store, [&](std::vector<Line>& lines) { remove_old(lines, rules, now); });
  if (report.busy) return report;
  const auto root = store.folder(cache::IfMissing::leave);
  const auto bests = root ? open_subfolder(*root, "best", cache::IfMissing::leave) : nullptr;
  if (!bests) return report;
  for (const auto& best : store.bests()) {
    const bool stale = rules.stale_code_generation && best->key->code_generation != code_generation_version;
    const bool old = rules.older_than_days &&
                     static_cast<double>(now - best->time) > *rules.older_than_days * 86'400'000.0;
    if (!stale && !old) continue;
    const auto folder = open_subfolder(
        *bests, RecordStore::best_folder_of(best->key->kernel, best->key->space), cache::IfMissing::leave);
    if (folder && unlinkat(folder->descriptor(), (to_string(best->key->id()) + ".json").c_str(), 0) == 0)
      ++report.bests_removed;
  }
  return report;
}

} // namespace kiln::tune
