// Merges records from other stores and files into a store, and exports them.
#include <kiln/autotune/records/maintenance.h>

#include <kiln/autotune/records/wisdom.h>

#include <algorithm>
#include <filesystem>

#include <unistd.h>

namespace kiln::tune {
namespace {

// Returns the ids of all undamaged lines in the store.
IdSet ids_of(RecordStore& store) {
  IdSet ids;
  store.for_each_segment({}, store.segments(), [&](const RecordStore::Segment& segment) {
    return for_each_line(*segment.folder, segment.name,
                         [&](std::string_view line) {
                           cache::Key id;
                           if (check_line(line, &id) != LineState::bad) ids.insert(id);
                         })
        .opened;
  });
  return ids;
}

// Keeps the faster record, so that stores agree after any number of merges in any order.
void merge_best(RecordStore& store, const Record& record, MergeReport& report) {
  const auto own = store.best(*record.key);
  const auto rank = [](const Record& r) {
    return std::tuple(!r.confirmed, r.result.seconds, r.time, std::string_view(r.config));
  };
  if (own && rank(*own) <= rank(record)) return;
  ++(store.publish_best(record) ? report.bests : report.failed);
}

// Publishes bests after a merge, whose records may contain confirmed configs that are not published.
void publish_bests(RecordStore& store, MergeReport& report) {
  const FoundBests found = publish_missing_bests(store);
  report.bests += found.published, report.failed += found.failed;
}

// Merges one line, without its newline. The folders are those of the other store; if empty, they are derived
// from the key.
void merge_line(RecordStore& store, std::string_view line, IdSet& ids, LineReader& reader,
                std::string kernel_folder, std::string silicon_folder, MergeReport& report) {
  cache::Key id;
  const LineState state = check_line(line, &id);
  if (state == LineState::bad) {
    ++report.bad;
    return;
  }
  if (state == LineState::future) {
    ++report.future;
    if (kernel_folder.empty()) return; // its folder is not known
  }
  if (ids.contains(id)) {
    ++report.known;
    return;
  }
  if (kernel_folder.empty()) {
    const auto record = reader.read(line);
    if (!record) {
      ++report.bad;
      return;
    }
    kernel_folder = RecordStore::kernel_folder_of(*record->key);
    silicon_folder = RecordStore::silicon_folder_of(*record->key);
  }
  if (store.append_line(kernel_folder, silicon_folder, line)) {
    ids.insert(id);
    ++report.added;
  } else {
    ++report.failed;
  }
}

// Returns whether an accessible folder contains no records, even if it cannot be written.
bool is_without_records(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) && access(folder.c_str(), X_OK) == 0 &&
         !std::filesystem::is_directory(folder / "rec", ignored) &&
         !std::filesystem::is_directory(folder / "best", ignored);
}

// Returns why a folder is not read; empty if it can be read.
std::string problem_of(const std::filesystem::path& folder) {
  const cache::OpenFolder opened = cache::open_folder(folder, cache::IfMissing::leave);
  if (opened.folder) return {};
  return opened.why.empty() ? "there is no such folder" : opened.why;
}

} // namespace

MergeReport merge(RecordStore& store, const std::filesystem::path& other_folder) {
  MergeReport report;
  // The folder is a store, or the cache folder that contains it.
  std::error_code ignored;
  const std::filesystem::path inner = other_folder / "tune" / "v1";
  const bool outer = std::filesystem::is_directory(inner, ignored);
  report.problem = !outer && is_without_records(other_folder) ? "it contains no tuning records"
                                                              : problem_of(outer ? inner : other_folder);
  if (!report.problem.empty()) return report;
  RecordStore other(outer ? inner : other_folder);
  IdSet ids = ids_of(store);
  LineReader reader;
  report.bad += other.for_each_segment({}, other.segments(), [&](const RecordStore::Segment& segment) {
    const auto take = [&](std::string_view line) {
      merge_line(store, line, ids, reader, segment.kernel_folder, segment.silicon_folder, report);
    };
    return for_each_line(*segment.folder, segment.name, take).opened;
  });
  for (const auto& best : other.bests())
    merge_best(store, *best, report);
  publish_bests(store, report);
  return report;
}

MergeReport import_text(RecordStore& store, std::string_view text) {
  MergeReport report;
  IdSet ids = ids_of(store);
  LineReader reader;
  if (looks_like_wisdom(text)) {
    const Wisdom wisdom = read_wisdom(text);
    report.problem = wisdom.problem;
    report.bad = wisdom.bad, report.future = wisdom.future;
    for (const auto& record : wisdom.records) {
      std::string line = to_line(*record);
      if (line.empty()) {
        ++report.bad;
        continue;
      }
      line.pop_back();
      merge_line(store, line, ids, reader, {}, {}, report);
      merge_best(store, *record, report);
    }
    return report;
  }
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) merge_line(store, line, ids, reader, {}, {}, report);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  publish_bests(store, report);
  return report;
}

std::string export_lines(RecordStore& store, const Filter& filter) {
  std::vector<std::pair<std::int64_t, std::string>> lines;
  IdSet seen;
  LineReader reader;
  const auto take = [&](std::string_view line) {
    cache::Key id;
    if (check_line(line, &id) != LineState::good || !seen.insert(id)) return;
    const auto record = reader.read(line);
    if (record && filter.admits(*record->key)) lines.emplace_back(record->time, line);
  };
  store.for_each_segment(filter, store.segments(filter), [&](const RecordStore::Segment& segment) {
    return for_each_line(*segment.folder, segment.name, take).opened;
  });
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& [time, line] : lines)
    (text += line) += '\n';
  return text;
}

std::vector<std::shared_ptr<const Record>> export_winners(RecordStore& store, const Filter& filter) {
  std::vector<std::shared_ptr<const Record>> list;
  IdSet known;
  for (const auto& best : store.bests())
    if (filter.admits(*best->key) && known.insert(best->key->id())) list.push_back(best);
  for (const auto& best : winners(store.load(filter).records))
    if (known.insert(best->key->id())) list.push_back(best);
  return list;
}

} // namespace kiln::tune
