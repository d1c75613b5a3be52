// Lists and shows records.
#include <kiln/autotune/cli/records_list.h>

#include <kiln/autotune/cli/records_text.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

namespace kiln::cli {

using namespace kiln::tune;

namespace {

std::string short_id(const RecordKey& key) { return to_string(key.id()).substr(0, 12); }

// All that is known of one key.
struct Question {
  std::shared_ptr<const RecordKey> key;
  std::vector<Record> records;
  std::shared_ptr<const Record> best; // published, or what launches find in its place
  bool published = false;
  std::size_t failed = 0;
  std::int64_t newest = 0;
};

std::vector<Question> questions(RecordStore& store, const Filter& filter, LoadCounts& counts) {
  std::map<cache::Key, Question> found;
  Loaded loaded = store.load(filter);
  counts = loaded.counts;
  for (const auto& best : winners(loaded.records))
    found[best->key->id()].best = best;
  std::map<const RecordKey*, Question*> known;
  for (Record& record : loaded.records) {
    Question*& question = known[record.key.get()];
    if (!question) question = &found[record.key->id()];
    question->key = record.key;
    question->failed += !record.result.ok();
    question->newest = std::max(question->newest, record.time);
    question->records.push_back(std::move(record));
  }
  for (const auto& best : store.bests(filter.kernel)) {
    if (!filter.admits(*best->key)) continue;
    Question& question = found[best->key->id()];
    question.key = best->key;
    question.best = best;
    question.published = true;
    question.newest = std::max(question.newest, best->time);
  }
  std::vector<Question> list;
  for (auto& [id, question] : found)
    list.push_back(std::move(question));
  const auto rank = [](const Question& q) {
    return std::tuple(std::string_view(q.key->kernel), -q.newest, q.key->id());
  };
  std::sort(list.begin(), list.end(),
            [&](const Question& a, const Question& b) { return rank(a) < rank(b); });
  return list;
}

void show_question(const Question& q, bool all) {
  const RecordKey& k = *q.key;
  fmt::print("{}  {} {}\n", to_string(k.id()), printable(k.kernel), printable(text_of(k.problem)));
  fmt::print("  silicon   {} ({}), code generation {}\n", printable(k.silicon), printable(k.backend),
             k.code_generation);
  fmt::print("  tools     {}{}{}{}{}\n", printable(k.tools.product),
             k.tools.kiln.empty() ? "" : ", kiln " + printable(k.tools.kiln),
             k.tools.llvm.empty() ? "" : ", llvm " + printable(k.tools.llvm),
             k.tools.ptxas.empty() ? "" : ", ptxas " + printable(k.tools.ptxas),
             k.tools.driver.empty() ? "" : ", driver " + printable(k.tools.driver));
  if (q.best)
    fmt::print("  used      {} in {}{}\n", printable(q.best->config), time_text(q.best->result.seconds),
               q.best->confirmed ? "" : ", not confirmed");
  std::map<std::string, std::size_t> failures;
  std::vector<const Record*> ok;
  for (const Record& record : q.records)
    if (record.result.ok())
      ok.push_back(&record);
    else
      ++failures[name(record.result.status)];
  fmt::print("  records   {}", q.records.size());
  for (const auto& [kind, count] : failures)
    fmt::print(", {} {}", count, kind);
  fmt::print("\n");
  std::sort(ok.begin(), ok.end(), [](const Record* a, const Record* b) {
    return std::pair(a->result.seconds, a) < std::pair(b->result.seconds, b);
  });
  const std::size_t most = all ? ok.size() : std::min<std::size_t>(ok.size(), 10);
  for (std::size_t i = 0; i < most; ++i)
    fmt::print("  {:>10}  {:<9} {:<10} {}\n", time_text(ok[i]->result.seconds),
               ok[i]->confirmed ? "confirmed" : "", printable(ok[i]->source), printable(ok[i]->config));
  if (most < ok.size()) fmt::print("  and {} slower; --all shows them\n", ok.size() - most);
  if (all)
    for (const Record& record : q.records)
      if (!record.result.ok())
        fmt::print("  {:>10}  {} {}\n", name(record.result.status), printable(record.config),
                   printable(record.result.error));
}

} // namespace

int list_records(RecordStore& store, const Filter& filter, const ListOptions& options) {
  LoadCounts counts;
  const std::vector<Question> list = questions(store, filter, counts);
  if (options.json) {
    Json rows = Json::array();
    for (const Question& q : list) {
      Json row = to_json_object(*q.key);
      row.update({{"records", q.records.size()},
                  {"failed", q.failed},
                  {"newest", q.newest},
                  {"published", q.published}});
      if (q.best) row["best"] = to_json_object(*q.best);
      rows.push_back(std::move(row));
    }
    print_json({{"folder", store.path().string()},
                {"records", counts.records},
                {"segments", counts.segments},
                {"skipped", {{"damaged", counts.bad}, {"torn", counts.torn}, {"future", counts.future}}},
                {"questions", std::move(rows)}});
    return 0;
  }
  const std::string skipped = skipped_text(counts);
  fmt::print("{}: {} of {}{}\n", store.path().string(), plural(counts.records, "record"),
             plural(list.size(), "problem"), skipped.empty() ? "" : "; skipped " + skipped);
  if (list.empty()) return 0;
  std::size_t kernel_width = 6, problem_width = 7;
  for (const Question& q : list) {
    kernel_width = std::max(kernel_width, std::min<std::size_t>(q.key->kernel.size(), 30));
    problem_width = std::max(problem_width, std::min<std::size_t>(text_of(q.key->problem).size(), 40));
  }
  fmt::print("{:<12}  {:<{}}  {:<{}}  {:<8}  {:>7}  {:>6}  {:>10}  {:<16}  {}\n", "key", "kernel",
             kernel_width, "problem", problem_width, "back end", "records", "failed", "best", "newest",
             "config");
  for (const Question& q : list)
    fmt::print("{:<12}  {:<{}}  {:<{}}  {:<8}  {:>7}  {:>6}  {:>10}  {:<16}  {}{}\n", short_id(*q.key),
               printable(q.key->kernel), kernel_width, printable(text_of(q.key->problem)), problem_width,
               printable(q.key->backend), q.records.size(), q.failed,
               q.best ? time_text(q.best->result.seconds) : "-", when(q.newest),
               q.best ? printable(q.best->config) : "-",
               q.best && !q.best->confirmed ? " (not confirmed)" : "");
  return 0;
}

int show_records(RecordStore& store, const std::string& what, const ListOptions& options) {
  LoadCounts counts;
  std::vector<Question> list = questions(store, {}, counts);
  std::erase_if(list, [&](const Question& q) {
    return q.key->kernel != what && !(what.size() >= 4 && to_string(q.key->id()).starts_with(what));
  });
  if (list.empty())
    throw UserError(fmt::format("no record is of a kernel or key {}; `kiln records list` lists "
                                "what there is in {}",
                                what, store.path().string()));
  Json rows = Json::array();
  for (const Question& q : list) {
    if (!options.json) {
      show_question(q, options.all);
      continue;
    }
    Json row = to_json_object(*q.key);
    if (q.best) row["best"] = to_json_object(*q.best);
    row["records"] = Json::array();
    for (const Record& record : q.records)
      row["records"].push_back(to_json_object(record));
    rows.push_back(std::move(row));
  }
  if (options.json) print_json(rows);
  return 0;
}

} // namespace kiln::cli
