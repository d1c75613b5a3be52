// Implements the command `kiln tune`, which searches the configs of a kernel on a device.
#include <kiln/autotune/cli/device_option.h>
#include <kiln/autotune/cli/input_option.h>
#include <kiln/autotune/cli/plugin.h>
#include <kiln/autotune/cli/progress.h>
#include <kiln/autotune/records/store.h>
#include <kiln/autotune/report/report.h>
#include <kiln/autotune/run/compared.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>
#include <kiln/autotune/search/replay.h>
#include <kiln/autotune/search/table.h>
#include <kiln/autotune/stop.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/passes/cost.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace kiln::tune {

namespace {

constexpr const char* tune_description =
    "Searches the configs of a kernel for one problem on one device, and keeps the best in the database,\n"
    "where launches find it. Candidates are compiled and run in separate processes, and checked before\n"
    "they are timed. Ctrl-C ends the search and keeps its results; a second Ctrl-C ends the process at\n"
    "once. Machines of one kind that share a KILN_CACHE_DIR share the work of a problem that they tune at\n"
    "the same time.\n\n"
    "  kiln tune matmul --shape 512x4096x4096 --dtype bf16\n"
    "  kiln tune softmax --shape M=8192 --trials 64 --report softmax.html\n"
    "  kiln tune --plugin ./libmine.so mine --device cuda:0 --budget 60\n"
    "  kiln tune --replay table.json.gz --strategy learned --seeds 50\n\n"
    "`kiln tune --list` lists the kernels.";

struct Arguments {
  std::string kernel, plugin, shape, dtype, device = "cpu", effort = "full";
  bool list = false, json = false, warm = false, quiet = false;
  std::string table;                 // the table to write
  std::size_t configs_for_table = 0; // the number of configs in it
  std::vector<std::string> reports, replayed, inputs;
  ReplayOptions replay;
  TuneOptions options;
};

constexpr std::size_t most_for_table = 100'000; // at ten per second they take three hours

Effort effort_of(const std::string& text) {
  return text == "quick" ? Effort::quick : text == "full" ? Effort::full : Effort::most;
}

double flops_of(Prior& prior, const Point& point) {
  const Terms* terms = prior.terms(point);
  if (!terms) return 0;
  return terms->useful_flops > 0 ? terms->useful_flops : terms->flops;
}

nlohmann::ordered_json json_of(const Tuning& t, const Task& task, const Arguments& a) {
  nlohmann::ordered_json json;
  json["kernel"] = task.kernel;
  json["problem"] = task.problem.to_string();
  json["device"] = to_string(task.device);
  json["strategy"] = t.strategy;
  json["trials"] = t.search.trials.size();
  json["shared_trials"] = t.search.shared.size();
  json["compiled_only"] = t.search.compiled_only;
  json["seconds"] = t.search.seconds;
  json["model_seconds"] = t.search.model_seconds;
  json["stopped_by"] = t.search.stopped_by;
  json["bound_seconds"] = t.bound;
  std::map<std::string, int> kinds;
  for (const Trial& trial : t.search.trials)
    ++kinds[name(trial.result.status)];
  json["outcomes"] = kinds;
  auto config = [&](const std::optional<Point>& point) -> nlohmann::ordered_json {
    if (!point) return nullptr;
    nlohmann::ordered_json entry{{"config", t.space->text(*point)}};
    if (const Measurement* m = t.of(*point); m && m->ok())
      entry["seconds"] = m->seconds, entry["low"] = m->low, entry["high"] = m->high;
    entry["confirmed"] = t.search.is_confirmed(*point);
    return entry;
  };
  json["best"] = config(t.search.best);
  json["default"] = config(t.fallback);
  json["analytic"] = config(t.analytic);
  if (!a.table.empty())
    json["table"] = {{"file", a.table}, {"configs", t.search.trials.size()}, {"of", a.configs_for_table}};
  return json;
}

std::string why_stopped(const std::string& reason) {
  if (reason == "one point") return "the space has one point";
  if (reason == "chance") return "stopped because a faster config is unlikely";
  return "stopped by " + reason;
}

void print_summary(const Tuning& t, const Task& task, const Arguments& a) {
  const auto& r = t.search;
  fmt::print("{} {} on {}: {} trials in {:.1f} s, {}\n", task.kernel, task.problem.to_string(),
             to_string(task.device), r.trials.size(), r.seconds, why_stopped(r.stopped_by));
  if (r.compiled_only > 0) fmt::print("  compiled  {} more, which were not run\n", r.compiled_only);
  if (!r.shared.empty()) fmt::print("  shared    {} trials of other searches\n", r.shared.size());
  if (const std::string failures = failures_text(r); !failures.empty())
    fmt::print("  failed    {}\n", failures);
  auto line = [&](const char* what, const std::optional<Point>& point) {
    const Measurement* m = point ? t.of(*point) : nullptr;
    if (!point) return;
    if (!m || !m->ok()) {
      fmt::print("  {:<9} {{{}}}  {}\n", what, t.space->text(*point),
                 m ? fmt::format("failed: {}: {}", name(m->status), m->error) : "not measured");
      return;
    }
    const double flops = flops_of(*t.prior, *point);
    const std::string interval =
        m->launches == 1 ? "one launch" : duration_text(m->low) + ", " + duration_text(m->high);
    fmt::print("  {:<9} {:>9}  [{}]{}{}  {{{}}}{}\n", what, duration_text(m->seconds), interval,
               flops > 0 ? "  " + rate_text(flops / m->seconds) : "",
               t.bound > 0 ? "  " + share_of_bound(t.bound, m->seconds) : "", t.space->text(*point),
               r.is_confirmed(*point) ? "" : "  unconfirmed");
  };
  line("best", r.best);
  line("default", t.fallback);
  line("analytic", t.analytic);
  if (r.best && !r.is_confirmed(*r.best))
    fmt::print("  unconfirmed: the search ended before it measured the best again together with the default; "
               "launches use it provisionally\n");
  if (!t.kept.empty())
    fmt::print(
        "  kept      launches keep using {{{}}}, which was found with more trials, or with cold caches\n",
        t.kept);
  if (r.trials.empty() && r.stopped_by == "seconds")
    fmt::print(
        "  measured  nothing: the default {{{}}} did not finish within {:.3g} s; give it more time with "
        "--budget if it is not an endless loop\n",
        t.fallback ? t.space->text(*t.fallback) : "", t.budget_seconds);
  if (!t.suspicion.empty()) fmt::print("  suspect   {}\n", t.suspicion);
  if (!t.checked.empty())
    fmt::print(
        "  checked   the default against the interpreter: {}; every other config against the default\n",
        t.checked);
  if (!t.refusals.empty()) fmt::print("  refused   {}\n", t.refusals);
  if (r.best)
    for (const OutputComparison& output : r.best_result.outputs)
      fmt::print("  compared  {}\n", text_of(output));
  if (const std::size_t measured = r.trials.size(); !a.table.empty())
    fmt::print("  table     {} of {} configs{}\n", measured, a.configs_for_table,
               measured == 0                    ? ": no file was written"
               : measured < a.configs_for_table ? ": the others were not measured"
                                                : "");
}

// Reports options that a replay would ignore, and --seeds without a replay.
void check_replay_options(const CLI::App& app, bool replays) {
  const std::vector<std::string> replay_options = {"--replay", "--seeds", "--strategy",
                                                   "--trials", "--json",  "--quiet"};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    const bool known = std::find(replay_options.begin(), replay_options.end(), name) != replay_options.end();
    if (replays && !known)
      throw UserError("--replay searches recorded tables and does not use " + name + "; leave it out");
    if (!replays && name == "--seeds")
      throw UserError("--seeds needs --replay; a search on a device has one seed, --seed");
  }
}

// Checks before a search that its result can be written.
void check_writable(const char* option, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  const bool replaced = !fs::exists(status) || fs::is_regular_file(status);
  const fs::path folder = fs::path(path).parent_path();
  int error = 0;
  if (fs::is_directory(status))
    error = EISDIR;
  else if ((fs::exists(status) && access(path.c_str(), W_OK) != 0) ||
           (replaced && access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0))
    error = errno;
  if (error)
    throw UserError(std::string(option) + " " + path + " cannot be written: " + std::strerror(error) +
                    "; nothing was searched; name another file");
}

// Writes all requested files, even if one of them fails.
bool write_files(const Tuning& tuning, const Arguments& a) {
  bool written = true;
  const auto attempt = [&](auto write) {
    try {
      write();
    } catch (const UserError& error) {
      fmt::print(stderr, "kiln: {}\n", error.what());
      written = false;
    }
  };
  if (!a.table.empty() && !tuning.search.trials.empty())
    attempt([&] { write_table(table_of(tuning), a.table); });
  for (const std::string& file : a.reports)
    attempt([&] { write_report(report_data(tuning), file); });
  return written;
}

extern "C" void on_interrupt(int) { interrupt_tuning(); }

// While this lives, Ctrl-C ends the search but not the process; a second Ctrl-C ends the process. Its workers
// notice that, remove their folder and end.
class InterruptHandler {
public:
  InterruptHandler() {
    struct sigaction action{};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptHandler() { sigaction(SIGINT, &before_, nullptr); }

private:
  struct sigaction before_{};
};

// Throws UserError if there are too many configs to measure, or if Ctrl-C interrupted the counting.
std::size_t count_for_table(BoundSpace& space, const Stop& interrupted) {
  if (const std::vector<Point>* all = space.points(most_for_table, interrupted)) return all->size();
  if (interrupted())
    throw UserError("--table: interrupted while the configs were counted; nothing was measured");
  bool exact = false;
  const double size = space.size(&exact);
  throw UserError(
      fmt::format("--table measures every config, but there are {}{:.15g} of them; reduce the space to at "
                  "most {}, or search it without --table",
                  exact ? "" : "about ", exact ? size : std::round(size), most_for_table));
}

// Makes --budget and Ctrl-C the only ways to end the run early.
void measure_all(TuneOptions& options) {
  constexpr double no_limit = 1e6;
  options.strategy = "grid";
  options.trials = 1 << 20; // more than there are, so that patience does not end the run
  if (options.seconds == 0) options.seconds = no_limit;
}

int run_tune(int argc, char** argv) {
  CLI::App app(tune_description, "kiln tune");
  Arguments a;
  app.add_option("KERNEL", a.kernel, "a kernel that --list lists");
  app.add_option("--plugin", a.plugin, "a shared library that registers the kernel");
  app.add_option("--shape", a.shape, "the problem's sizes: 512x512x512, or M=512,N=512 to change only these")
      ->check(cli::not_empty());
  app.add_option("--dtype", a.dtype, "dtype of the operands (default: the kernel's first)")
      ->check(cli::not_empty());
  app.add_option(
      "--input", a.inputs,
      "NAME=FILE: the contents of a parameter, as FILE.npy or as its raw elements (default: what the "
      "kernel's registration generates, else made-up numbers)");
  app.add_option("--device", a.device, "cpu, cuda:0, emulated:sm_80")->capture_default_str();
  app.add_option("--effort", a.effort,
                 "quick: 32 trials or 20 s; full: 128 trials or 120 s; most: 512 trials or 15 min")
      ->check(CLI::IsMember({"quick", "full", "most"}))
      ->capture_default_str();
  CLI::Option* trials = app.add_option("--trials", a.options.trials, "maximum number of configs to measure")
                            ->check(cli::from_to(1, 1e6));
  app.add_option("--budget", a.options.seconds, "maximum seconds of the whole run, approximately")
      ->check(cli::from_to(.001, 1e6));
  app.add_option("--jobs", a.options.jobs, "compiling processes (default: one per CPU)")
      ->check(cli::from_to(1, 1024));
  CLI::Option* strategy = app.add_option("--strategy", a.options.strategy, "the search strategy")
                              ->check(CLI::IsMember(strategy_names()))
                              ->capture_default_str();
  app.add_option("--seed", a.options.seed, "seed of the search and of the inputs")
      ->check(cli::whole_number())
      ->capture_default_str();
  app.add_flag("--warm", a.warm, "time with inputs in the caches (default: from memory)");
  app.add_flag("--deterministic", a.options.deterministic,
               "only configs that sum in the same order as the default");
  app.add_option("--table", a.table,
                 "measure every config (at most 100000) and write them as a table for --replay; without "
                 "--budget this is not limited in time, and a run that ends early writes what it has")
      ->excludes(trials, strategy);
  app.add_option("--report", a.reports, "write a report: FILE.html, or FILE.csv with the trials");
  app.add_flag("--json", a.json, "print the result as JSON");
  app.add_flag("--quiet", a.quiet, "do not show progress");
  app.add_option("--replay", a.replayed, "search recorded tables, or those in folders, instead of a device");
  app.add_option("--seeds", a.replay.seeds, "number of searches of each table with --replay")
      ->check(cli::from_to(1, 1e4))
      ->capture_default_str();
  app.add_flag("--list", a.list, "list the kernels that can be tuned");
  if (auto code = cli::parse(app, argc, argv)) return *code;
  check_replay_options(app, !a.replayed.empty());
  if (!a.plugin.empty()) open_plugin(a.plugin);
  if (a.list) {
    for (const TunableKernel* kernel : tunable_kernels())
      fmt::print("{:<28} {}  ({})\n", kernel->name, kernel->summary, kernel->sizes);
    return 0;
  }
  if (!a.replayed.empty()) {
    a.replay.files = a.replayed;
    if (app.count("--strategy") > 0) a.replay.strategies = {a.options.strategy};
    if (a.options.trials > 0) a.replay.trials = a.options.trials;
    a.replay.json = a.json;
    return run_replay(a.replay);
  }
  if (a.kernel.empty()) throw UserError("name a kernel to tune; `kiln tune --list` lists them");
  const TunableKernel* kernel = find_tunable(a.kernel);
  if (!kernel)
    throw UserError("there is no tunable kernel \"" + a.kernel + "\"; `kiln tune --list` lists them");
  if (!a.table.empty()) check_writable("--table", a.table);
  for (const std::string& file : a.reports) {
    report_kind(file); // rejects unknown file types
    check_writable("--report", file);
  }
  Task task = make_task(*kernel, a.dtype, a.shape, device_from_option(a.device));
  give_inputs(task, *kernel, a.inputs, a.options.seed);
  task.deterministic |= a.options.deterministic;
  a.options.effort = effort_of(a.effort);
  a.options.cold = !a.warm;
  if (!a.table.empty()) measure_all(a.options);

  a.options.interruptions_before = interruptions();
  std::optional<InterruptHandler> handler(std::in_place);
  BoundSpace space = task.bound_space();
  Budget shown = budget_of(a.options);
  if (!a.table.empty()) {
    a.configs_for_table = count_for_table(
        space, [before = *a.options.interruptions_before] { return interruptions() != before; });
    shown.trials = static_cast<int>(a.configs_for_table);
  }
  std::optional<ProgressLine> line;
  double bound = 0;
  if (!a.quiet) {
    Prior prior(task, space, machine_for(task.device, a.options));
    const std::vector<Point> seeds = space.seeds();
    bound = prior.bound();
    line.emplace(task.kernel, shown, seeds.empty() ? 0 : flops_of(prior, seeds.front()), stderr);
  }
  a.options.announce = [&](const std::string& what) {
    if (line) line->say(what);
  };
  a.options.progress = [&](const SearchResult& so_far) {
    if (line) line->show(so_far, space, bound);
    return true;
  };
  const Tuning tuning = tune(task, a.options);
  handler.reset(); // from here on Ctrl-C ends the process
  if (line) line->finish();
  if (a.json)
    fmt::print("{}\n", json_of(tuning, task, a).dump(2));
  else
    print_summary(tuning, task, a);
  std::fflush(stdout);
  const bool written = write_files(tuning, a);
  return tuning.found() && written ? 0 : 1;
}

const cli::CommandRegistration tune_command({"tune", "searches the configs of a kernel", run_tune});

} // namespace
} // namespace kiln::tune
