// Lists and shows records, grouped by key.
#include <kiln/autotune/cli/records_list.h>

#include <kiln/autotune/cli/records_text.h>
#include <kiln/autotune/records/plan_record.h>
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

// Everything that is known for one key.
struct KeyRecords {
  std::shared_ptr<const RecordKey> key;
  std::vector<Record> records;
  std::shared_ptr<const Record> best; // the published config, or what launches use instead
  bool published = false;
  std::size_t failed = 0;
  std::int64_t newest = 0;
};

std::vector<KeyRecords> records_by_key(RecordStore& store, const Filter& filter, LoadCounts& counts) {
  std::map<cache::Key, KeyRecords> found;
  Loaded loaded = store.load(filter);
  counts = loaded.counts;
  for (const auto& best : winners(loaded.records))
    found[best->key->id()].best = best;
  std::map<const RecordKey*, KeyRecords*> known;
  for (Record& record : loaded.records) {
    KeyRecords*& of_key = known[record.key.get()];
    if (!of_key) of_key = &found[record.key->id()];
    of_key->key = record.key;
    of_key->failed += !record.result.ok();
    of_key->newest = std::max(of_key->newest, record.time);
    of_key->records.push_back(std::move(record));
  }
  for (const auto& best : store.bests(filter.kernel)) {
    if (!filter.admits(*best->key)) continue;
    KeyRecords& of_key = found[best->key->id()];
    of_key.key = best->key;
    of_key.best = best;
    of_key.published = true;
    of_key.newest = std::max(of_key.newest, best->time);
  }
  std::vector<KeyRecords> list;
  for (auto& [id, of_key] : found)
    list.push_back(std::move(of_key));
  const auto rank = [](const KeyRecords& q) {
    return std::tuple(std::string_view(q.key->kernel), -q.newest, q.key->id());
  };
  std::sort(list.begin(), list.end(),
            [&](const KeyRecords& a, const KeyRecords& b) { return rank(a) < rank(b); });
  return list;
}

// Why launches may not use a config as it is; empty if nothing speaks against it.
const char* doubt_about(const Record& best) {
  if (best.key->tools.verification != verification_version) return " (to be confirmed again)";
  return best.confirmed ? "" : " (not confirmed)";
}

// The options of a plan: first those that were measured, then the others, each group from fast to slow.
void show_plan(StoredPlan plan, bool all) {
  std::ranges::sort(plan.options, {}, [](const StoredPlan::Option& o) {
    return std::tuple(o.measured < 0, o.measured, o.forecast, std::string_view(o.name));
  });
  const std::size_t most = all ? plan.options.size() : std::min<std::size_t>(plan.options.size(), 10);
  fmt::print("  computation {}, communication {}, measured {}\n", time_text(plan.computation),
             time_text(plan.communication), when(plan.time));
  for (std::size_t i = 0; i < most; ++i) {
    const StoredPlan::Option& o = plan.options[i];
    fmt::print("  {:>10}  forecast {:>10}  {}\n", o.measured < 0 ? "-" : time_text(o.measured),
               time_text(o.forecast), printable(o.name));
  }
  if (most < plan.options.size()) fmt::print("  and {} more; --all shows them\n", plan.options.size() - most);
}

void show_key(const KeyRecords& q, bool all) {
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
               doubt_about(*q.best));
  if (q.best)
    if (auto plan = plan_of(*q.best)) return show_plan(std::move(*plan), all);
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
  const std::vector<KeyRecords> list = records_by_key(store, filter, counts);
  if (options.json) {
    Json rows = Json::array();
    for (const KeyRecords& q : list) {
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
  for (const KeyRecords& q : list) {
    kernel_width = std::max(kernel_width, std::min<std::size_t>(q.key->kernel.size(), 30));
    problem_width = std::max(problem_width, std::min<std::size_t>(text_of(q.key->problem).size(), 40));
  }
  fmt::print("{:<12}  {:<{}}  {:<{}}  {:<8}  {:>7}  {:>6}  {:>10}  {:<16}  {}\n", "key", "kernel",
             kernel_width, "problem", problem_width, "back end", "records", "failed", "best", "newest",
             "config");
  for (const KeyRecords& q : list)
    fmt::print("{:<12}  {:<{}}  {:<{}}  {:<8}  {:>7}  {:>6}  {:>10}  {:<16}  {}{}\n", short_id(*q.key),
               printable(q.key->kernel), kernel_width, printable(text_of(q.key->problem)), problem_width,
               printable(q.key->backend), q.records.size(), q.failed,
               q.best ? time_text(q.best->result.seconds) : "-", when(q.newest),
               q.best ? printable(q.best->config) : "-", q.best ? doubt_about(*q.best) : "");
  return 0;
}

int show_records(RecordStore& store, const std::string& what, const ListOptions& options) {
  LoadCounts counts;
  std::vector<KeyRecords> list = records_by_key(store, {}, counts);
  std::erase_if(list, [&](const KeyRecords& q) {
    return q.key->kernel != what && !(what.size() >= 4 && to_string(q.key->id()).starts_with(what));
  });
  if (list.empty())
    throw UserError(fmt::format("no record is of a kernel or key {}; `kiln records list` lists the "
                                "records in {}",
                                what, store.path().string()));
  Json rows = Json::array();
  for (const KeyRecords& q : list) {
    if (!options.json) {
      show_key(q, options.all);
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
