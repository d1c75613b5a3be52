// Implements the command `kiln records`, which manages tuning records and explains which configs are used.
#include <kiln/autotune/cli/device_option.h>
#include <kiln/autotune/cli/plugin.h>
#include <kiln/autotune/cli/problem_option.h>
#include <kiln/autotune/cli/records_list.h>
#include <kiln/autotune/cli/records_text.h>
#include <kiln/autotune/records/maintenance.h>
#include <kiln/autotune/records/plan_record.h>
#include <kiln/autotune/records/why.h>
#include <kiln/autotune/write_file.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/read_input.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

namespace kiln::cli {
namespace {

using namespace kiln::tune;

struct Arguments {
  std::string folder, kernel, what, file, plugin, shape, dtype, kind, device = "cpu";
  std::vector<std::string> folders;
  bool json = false, all = false, wisdom = false, stale = false, repair = false;
  double older_than_days = -1;
  std::int64_t keep = -1;

  ProblemOptions problem_options() const { return {what, shape, dtype, kind, device_from_option(device)}; }
  Filter filter() const {
    Filter filter;
    filter.kernel = kernel;
    return filter;
  }
};

int export_records(RecordStore& store, const Arguments& a) {
  std::string text;
  std::size_t count = 0;
  if (a.wisdom) {
    const auto best = export_winners(store, a.filter());
    count = best.size();
    text = wisdom_text(best);
  } else {
    text = export_lines(store, a.filter());
    count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  if (a.file == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  write_file(a.file, text, "the file");
  if (a.json)
    print_json({{"file", a.file}, {"records", count}});
  else
    fmt::print("{}: {}\n", a.file, plural(count, a.wisdom ? "config" : "record"));
  return 0;
}

int finish_merge(const MergeReport& report, const std::string& from, const Arguments& a) {
  if (!report.problem.empty())
    throw UserError(
        fmt::format("{}: {}; give a file that `kiln records export` wrote, or a folder of records", from,
                    report.problem));
  if (a.json)
    print_json({{"from", from},
                {"added", report.added},
                {"known", report.known},
                {"bests", report.bests},
                {"damaged", report.bad},
                {"future", report.future},
                {"failed", report.failed}});
  else
    fmt::print("{}: {} added, {} known before, {} faster{}{}{}\n", from, plural(report.added, "record"),
               report.known, plural(report.bests, "config"),
               report.bad ? fmt::format(", {} damaged", report.bad) : "",
               report.future ? fmt::format(", {} from a later version of Kiln", report.future) : "",
               report.failed ? fmt::format(", {} not stored", report.failed) : "");
  return report.failed || (report.bad && !report.added && !report.known) ? 1 : 0;
}

int merge_records(RecordStore& store, const Arguments& a) {
  int code = 0;
  for (const std::string& folder : a.folders)
    code = std::max(code, finish_merge(merge(store, folder), folder, a));
  return code;
}

int import_records(RecordStore& store, const Arguments& a) {
  const std::string text = read_input(a.file, "give a file that `kiln records export` wrote");
  return finish_merge(import_text(store, text), a.file, a);
}

std::string why_busy(const std::string& problem) {
  return problem.empty() ? "another process is rewriting the records; try again later" : problem;
}

int prune_records(RecordStore& store, const Arguments& a) {
  PruneRules rules;
  if (a.older_than_days >= 0) rules.older_than_days = a.older_than_days;
  if (a.keep >= 0) rules.keep_newest = static_cast<std::size_t>(a.keep);
  rules.stale_code_generation = a.stale;
  const RewriteReport r = prune(store, rules);
  if (a.json)
    print_json({{"busy", r.busy},
                {"problem", r.problem},
                {"removed", r.removed},
                {"kept", r.kept},
                {"duplicates", r.duplicates},
                {"damaged", r.bad},
                {"bests_removed", r.bests_removed},
                {"segments_before", r.segments_before},
                {"segments_after", r.segments_after},
                {"segments_in_use", r.in_use},
                {"failed", r.failed}});
  else if (r.busy)
    fmt::print("nothing was done: {}\n", why_busy(r.problem));
  else
    fmt::print("{}: removed {}, {} duplicates, {} damaged lines and {}; kept {} in {}{}{}\n",
               store.path().string(), plural(r.removed, "record"), r.duplicates, r.bad,
               plural(r.bests_removed, "best config"), r.kept, plural(r.segments_after, "file"),
               r.in_use ? fmt::format(", {} of them in use", r.in_use) : "",
               r.failed ? fmt::format("; {} could not be written", plural(r.failed, "folder")) : "");
  return r.busy || r.failed ? 1 : 0;
}

int verify_records(RecordStore& store, const Arguments& a) {
  const VerifyReport r = verify(store, a.repair ? Repair::yes : Repair::no);
  const std::uint64_t wrong = r.damage.size() + r.leftovers;
  if (a.json) {
    Json damage = Json::array();
    for (const Damage& d : r.damage)
      damage.push_back({{"file", d.file}, {"line", d.line}, {"problem", d.problem}});
    print_json({{"segments", r.segments},
                {"good", r.good},
                {"duplicates", r.duplicates},
                {"future", r.future},
                {"bests", r.bests},
                {"leftovers", r.leftovers},
                {"repaired", r.repaired},
                {"busy", r.busy},
                {"problem", r.problem},
                {"damage", std::move(damage)}});
  } else {
    for (const Damage& d : r.damage)
      fmt::print("{}:{}: {}\n", printable(d.file), d.line, d.problem);
    fmt::print("{}: {} in {}, {}; {} duplicates, {} from a later version of Kiln, {} damaged, {} left over, "
               "{} repaired\n",
               store.path().string(), plural(r.good, "record"), plural(r.segments, "file"),
               plural(r.bests, "best config"), r.duplicates, r.future, r.damage.size(), r.leftovers,
               r.repaired);
    if (r.busy) fmt::print("damaged lines were not removed: {}\n", why_busy(r.problem));
  }
  return r.repaired < wrong ? 1 : 0;
}

int why_record(RecordStore& store, const Arguments& a) {
  if (!a.plugin.empty()) open_plugin(a.plugin);
  Database database(store);
  Database& known = a.folder.empty() ? Database::standard() : database;
  const Problem asked = problem_from_options(known, a.problem_options());
  const std::optional<RecordKey> key = guess_key(known, a.what, asked, device_from_option(a.device));
  if (!key)
    throw UserError(fmt::format("no record is of a kernel {}{}; the analytic model chooses its config, and "
                                "`kiln tune` makes records",
                                a.what, asked.kind.empty() ? "" : " for " + asked.kind));
  if (is_of_plan(*key))
    throw UserError(
        fmt::format("{} is not a kernel, but stands for plans; `kiln records show {}` prints them "
                    "with their options",
                    a.what, a.what));
  const Why found = why(known, *key);
  if (!a.json) {
    fmt::print("{}", printable_lines(text_of(found)));
    return 0;
  }
  Json json = to_json_object(found.key);
  json["verdict"] = found.verdict;
  json["source"] = name(found.found.source);
  json["trusted"] = found.found.trusted();
  json["trials"] = found.trials;
  json["configs"] = found.configs;
  json["failures"] = found.failures;
  json["tools_changed"] = found.tools_changed;
  if (found.found.record) json["record"] = to_json_object(*found.found.record);
  json["neighbours"] = Json::array();
  for (const Neighbour& n : found.neighbours) {
    Json neighbour = to_json_object(*n.record->key);
    neighbour.update({{"distance", n.distance}, {"record", to_json_object(*n.record)}});
    json["neighbours"].push_back(std::move(neighbour));
  }
  print_json(json);
  return 0;
}

int run_records(int argc, char** argv) {
  CLI::App app(
      "Manages the records of tuning ($KILN_CACHE_DIR/tune/v1, by default in $XDG_CACHE_HOME/kiln or "
      "~/.cache/kiln) and explains which configs are used.",
      "kiln records");
  app.require_subcommand(1);
  app.fallthrough();
  Arguments a;
  app.add_option("--folder", a.folder, "a folder of records, instead of that in the cache folder")
      ->check(not_empty());
  app.add_flag("--json", a.json, "print JSON");
  const auto with_kernel = [&](CLI::App* command) {
    command->add_option("--kernel", a.kernel, "only records of this kernel");
    return command;
  };
  CLI::App* list = with_kernel(app.add_subcommand("list", "list the tuned problems and the configs in use"));
  CLI::App* show = app.add_subcommand("show", "show the records of a kernel or a key");
  show->add_option("what", a.what, "a kernel's name, or the first digits of a key")->required();
  show->add_flag("--all", a.all, "also failures and slow configs");
  CLI::App* write = with_kernel(app.add_subcommand("export", "write records, or wisdom, to a file"));
  write->add_option("file", a.file, "the file; - is the standard output")->required();
  write->add_flag("--wisdom", a.wisdom, "only the configs in use, as a wisdom file to ship");
  CLI::App* read = app.add_subcommand("import", "read records or wisdom from a file");
  read->add_option("file", a.file, "the file; - is the standard input")->required();
  CLI::App* merge = app.add_subcommand("merge", "copy records from other folders");
  merge->add_option("folder", a.folders, "folders of records, or cache folders that contain one")->required();
  CLI::App* prune = app.add_subcommand("prune", "remove old records, and combine files");
  prune->add_option("--older-than", a.older_than_days, "remove records older than this many days")
      ->check(cli::from_to(0, 1e5));
  prune->add_option("--keep", a.keep, "keep this many of the newest records of each problem, and the fastest")
      ->check(cli::from_to(0, 1e9));
  prune->add_flag("--stale", a.stale, "remove records made with another version of code generation");
  CLI::App* verify = app.add_subcommand("verify", "check all checksums");
  verify->add_flag("--repair", a.repair, "remove damaged records");
  CLI::App* why = app.add_subcommand("why", "explain which config a problem gets");
  why->add_option("kernel", a.what, "the kernel's name")->required();
  why->add_option("--plugin", a.plugin, "a shared library that registers the kernel");
  why->add_option("--shape", a.shape,
                  "the sizes: M=512,N=512,K=512, or in order, as for `kiln tune`: 512x512x512")
      ->required()
      ->check(not_empty());
  why->add_option("--dtype", a.dtype,
                  "dtype of the operands, as for `kiln tune`; only for kernels that it lists")
      ->check(not_empty());
  why->add_option("--kind", a.kind, "dtypes and layouts, e.g. f32.nn (default: those of the newest record)")
      ->check(not_empty());
  why->add_option("--device", a.device, "cpu, cuda:0, emulated:sm_80 (default: cpu)");
  if (argc > 1 && *argv[1] != '-' &&
      app.get_subcommands([&](CLI::App* s) { return s->get_name() == argv[1]; }).empty()) {
    fmt::print(stderr,
               "kiln records: there is no subcommand \"{}\"; choose list, show, export, import, merge, "
               "prune, verify "
               "or why\n",
               argv[1]);
    return wrong_usage;
  }
  if (auto code = parse(app, argc, argv)) return *code;

  RecordStore given(a.folder);
  RecordStore& store = a.folder.empty() ? RecordStore::standard() : given;
  if (store.path().empty())
    throw UserError("there is no folder for records; set KILN_CACHE_DIR, XDG_CACHE_HOME or HOME, or "
                    "give --folder");
  const bool fills = *read || *merge; // the others need an existing folder
  std::error_code ignored;
  if (!a.folder.empty() && !fills && !std::filesystem::is_directory(store.path(), ignored))
    throw UserError("--folder " + a.folder + ": there is no such folder");
  if (*list) return list_records(store, a.filter(), {.json = a.json});
  if (*show) return show_records(store, a.what, {.json = a.json, .all = a.all});
  if (*write) return export_records(store, a);
  if (*read) return import_records(store, a);
  if (*merge) return merge_records(store, a);
  if (*prune) return prune_records(store, a);
  if (*verify) return verify_records(store, a);
  if (*why) return why_record(store, a);
  return wrong_usage;
}

const CommandRegistration
    registration({"records", "lists, exports, merges, prunes and explains tuning records", run_records});

} // namespace
} // namespace kiln::cli
