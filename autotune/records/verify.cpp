// Finds damage in a store, and repairs it.
#include <kiln/autotune/records/maintenance.h>

#include <ctime>
#include <unordered_set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::tune {
namespace {

constexpr std::int64_t abandoned_seconds = 3600;

std::string problem_of(std::string_view line) {
  if (line.empty()) return "an empty line";
  if (line.size() > most_line_bytes) return "too long for a record";
  if (!line.ends_with("\"}") || line.find(",\"crc\":\"") == line.npos) return "incomplete, or not a record";
  return "the checksum does not match";
}

void verify_segment(const RecordStore::Segment& segment, IdSet& seen, VerifyReport& report) {
  LineReader reader;
  std::uint64_t number = 0;
  const auto take = [&](std::string_view line) {
    ++number;
    cache::Key id;
    const LineState state = check_line(line, &id);
    std::string problem;
    if (state == LineState::bad)
      problem = problem_of(line);
    else if (state == LineState::good && !reader.read(line))
      problem = "not a record";
    if (!problem.empty())
      report.damage.push_back({"rec/" + segment.label(), number, std::move(problem)});
    else if (!seen.insert(id))
      ++report.duplicates;
    else
      ++(state == LineState::future ? report.future : report.good);
  };
  if (!for_each_line(*segment.folder, segment.name, take, 0, true).opened)
    report.damage.push_back({"rec/" + segment.label(), 0, "the file cannot be read"});
}

bool is_old(const cache::Folder& folder, const std::string& name) {
  struct stat status;
  return fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         std::time(nullptr) - status.st_mtim.tv_sec > abandoned_seconds;
}

// Checks the published bests, and removes leftovers and damaged files if `repair` says so.
void verify_bests(const cache::Folder& bests, std::size_t readable, Repair repair, VerifyReport& report,
                  RecordStore& store) {
  std::unordered_set<std::string> right;
  for (const auto& record : store.bests())
    right.insert(RecordStore::best_folder_of(record->key->kernel, record->key->space) + '/' +
                 to_string(record->key->id()) + ".json");
  report.bests = readable;
  for (const std::string& name : subfolders(bests)) {
    const auto folder = open_subfolder(bests, name, cache::IfMissing::leave);
    if (!folder) continue;
    for (const std::string& file : folder->file_names()) {
      if (file == "." || file == "..") continue;
      if (is_temporary(file)) {
        if (!is_old(*folder, file)) continue;
        ++report.leftovers;
      } else if (file.ends_with(".json") && !right.contains(name + '/' + file)) {
        report.damage.push_back(
            {"best/" + name + '/' + file, 1, "not the record of its key, or a wrong checksum"});
      } else {
        continue;
      }
      if (repair == Repair::yes && unlinkat(folder->descriptor(), file.c_str(), 0) == 0) ++report.repaired;
    }
  }
}

} // namespace

FoundBests publish_missing_bests(RecordStore& store) {
  IdSet known;
  for (const auto& record : store.bests())
    known.insert(record->key->id());
  FoundBests found;
  for (const auto& record : winners(store.load().records))
    if (record->confirmed && !known.contains(record->key->id()))
      ++(store.publish_best(*record) ? found.published : found.failed);
  return found;
}

VerifyReport verify(RecordStore& store, Repair repair) {
  VerifyReport report;
  const auto root = store.folder(cache::IfMissing::leave);
  if (!root) return report;
  IdSet seen;
  std::uint64_t leftover_segments = 0;
  std::shared_ptr<const cache::Folder> last;
  for (const RecordStore::Segment& segment : store.segments()) {
    ++report.segments;
    verify_segment(segment, seen, report);
    if (segment.folder == last) continue;
    last = segment.folder;
    for (const std::string& name : last->file_names())
      if (is_temporary(name) && is_old(*last, name)) {
        ++leftover_segments;
        if (repair == Repair::yes && unlinkat(last->descriptor(), name.c_str(), 0) == 0) ++report.repaired;
      }
  }
  const bool lines_damaged = !report.damage.empty();
  if (const auto bests = open_subfolder(*root, "best", cache::IfMissing::leave))
    verify_bests(*bests, store.bests().size(), repair, report, store);
  report.leftovers += leftover_segments;
  if (repair == Repair::no || report.damage.empty()) return report;
  if (lines_damaged) {
    const RewriteReport rewritten = compact(store);
    report.busy = rewritten.busy;
    report.problem = rewritten.problem;
    report.repaired += rewritten.bad;
  }
  publish_missing_bests(store); // replaces damaged ones
  return report;
}

} // namespace kiln::tune
