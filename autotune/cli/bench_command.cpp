// Implements the command `kiln bench`, which times a tunable kernel and compares it with the device's limits.
#include <kiln/autotune/cli/bench.h>
#include <kiln/autotune/cli/device_option.h>
#include <kiln/autotune/cli/plugin.h>
#include <kiln/autotune/records/store.h>
#include <kiln/autotune/run/registry.h>
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/cli/support/text.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::tune {

namespace {

using cli::count_text, cli::time_text;

struct Request {
  std::string kernel, plugin, dtype, shape, device = "cpu", config;
  BenchOptions options;
  bool json = false, warm = false;

  void add_to(CLI::App& app) {
    app.add_option("KERNEL", kernel, "a tunable kernel; if omitted, lists all");
    app.add_option("--plugin", plugin, "a shared library that registers the kernel");
    app.add_option("--shape", shape, "sizes, as M=512,N=512 or all of them in order, as 512x512x256")
        ->check(cli::not_empty());
    app.add_option("--dtype", dtype, "dtype of the elements (default: the kernel's first)")
        ->check(cli::not_empty());
    app.add_option("--device", device, "cpu, cuda:0, emulated:sm_80, ...");
    app.add_option("--config", config, "changes to the default config, as BM=128,num_warps=8");
    app.add_flag("--warm", warm, "time with inputs in the caches (default: from memory)");
    app.add_option("--seconds", options.seconds, "maximum seconds of timing")->check(cli::from_to(.01, 3600));
    app.add_option("--seed", options.seed, "seed of the random inputs")->check(cli::whole_number());
    app.add_flag("--json", json, "print JSON");
  }
};

void list_kernels(bool json) {
  auto list = nlohmann::ordered_json::array();
  for (const TunableKernel* kernel : tunable_kernels()) {
    std::vector<std::string> dtypes;
    std::string text;
    for (DType dtype : kernel->dtypes) {
      dtypes.emplace_back(kiln::name(dtype));
      text += (text.empty() ? "" : ", ") + dtypes.back();
    }
    list.push_back(
        {{"name", kernel->name}, {"summary", kernel->summary}, {"sizes", kernel->sizes}, {"dtypes", dtypes}});
    if (!json)
      fmt::print("{:<28} {}\n{:<28}   {}; {}\n", kernel->name, kernel->summary, "", kernel->sizes, text);
  }
  if (json) fmt::print("{}\n", list.dump(2));
  if (!json && list.empty())
    fmt::print("no tunable kernel is registered; use --plugin LIBRARY to add those of a library\n");
}

const TunableKernel& kernel_named(const std::string& name) {
  if (const TunableKernel* kernel = find_tunable(name)) return *kernel;
  std::vector<std::string> names;
  std::string all;
  for (const TunableKernel* kernel : tunable_kernels()) {
    names.emplace_back(kernel->name);
    all += (all.empty() ? "" : ", ") + names.back();
  }
  const std::string meant = cli::nearest(name, names);
  throw UserError("there is no tunable kernel \"" + name + "\"; " +
                  (!meant.empty() ? "did you mean " + meant + "?"
                   : all.empty()  ? "none is registered; use --plugin LIBRARY to add those of a library"
                                  : "there are " + all));
}

std::string share_text(const Bench::Share& share, const std::string& unit, const Machine& machine) {
  return fmt::format("{:<14} {:.3g} % of {} ({}, {})", count_text(share.rate, unit),
                     100 * share.rate / share.peak, count_text(share.peak, unit), share.what,
                     machine.measured ? "measured" : "assumed");
}

void print_text(const Task& task, const Machine& machine, const Bench& b, const Request& request) {
  fmt::print("{} {} on {} ({})\n", task.kernel, task.problem.to_string(), to_string(task.device),
             task.device.properties().name);
  fmt::print("  config      {}{}\n", b.config.to_string(), request.config.empty() ? "  (the default)" : "");
  fmt::print("  time        {:<14} 95 %: {} to {}; {} launches, {} inputs\n", time_text(b.timing.seconds),
             time_text(b.timing.interval.low), time_text(b.timing.interval.high), b.timing.launches,
             request.options.cold ? "cold" : "warm");
  if (task.device.is_emulated()) {
    fmt::print("  an emulated GPU: the time says nothing about a real GPU\n");
  } else {
    if (b.arithmetic.rate > 0)
      fmt::print("  arithmetic  {}{}\n", share_text(b.arithmetic, "FLOP/s", machine),
                 b.terms.useful_flops > 0 ? "" : "; includes the padding of tiles");
    if (b.memory.rate > 0) fmt::print("  memory      {}\n", share_text(b.memory, "B/s", machine));
    if (b.bound_share > 0)
      fmt::print("  roofline    {:<14} {}; the model predicted {}, limited by {}\n",
                 time_text(b.estimate.bound),
                 b.bound_share > 1 ? "faster than the model's bound"
                                   : fmt::format("{:.3g} % of the time", 100 * b.bound_share),
                 time_text(b.estimate.seconds), b.estimate.limit);
  }
  std::string facts;
  for (const auto& [name, value] : b.facts)
    facts += fmt::format("{}{} {:g}", facts.empty() ? "" : ", ", name, value);
  fmt::print("  code        {}, compiled in {}\n", facts.empty() ? "no facts are known" : facts,
             time_text(b.compile_seconds));
  if (2 * b.timing.disturbed > b.timing.samples)
    fmt::print("  noisy: the system took the CPU away in {} of {} samples; see `kiln doctor`\n",
               b.timing.disturbed, b.timing.samples);
}

void print_json(const Task& task, const Machine& machine, const Bench& b, const Request& request) {
  const auto share = [](const Bench::Share& s) {
    return nlohmann::ordered_json{{"rate", s.rate}, {"peak", s.peak}, {"of", s.what}};
  };
  nlohmann::ordered_json sizes = nlohmann::ordered_json::object();
  for (const auto& [name, value] : task.problem.sizes)
    sizes[name] = value;
  const nlohmann::ordered_json json = {
      {"kernel", task.kernel},
      {"sizes", sizes},
      {"kind", task.problem.kind},
      {"device", to_string(task.device)},
      {"name", task.device.properties().name},
      {"config", b.config.to_string()},
      {"cold", request.options.cold},
      {"seconds", b.timing.seconds},
      {"low", b.timing.interval.low},
      {"high", b.timing.interval.high},
      {"launches", b.timing.launches},
      {"samples", b.timing.samples},
      {"disturbed", b.timing.disturbed},
      {"flops", b.terms.useful_flops > 0 ? b.terms.useful_flops : b.terms.flops},
      {"bytes", b.terms.unique},
      {"arithmetic", share(b.arithmetic)},
      {"memory", share(b.memory)},
      {"bound", b.estimate.bound},
      {"expected", b.estimate.seconds},
      {"limit", b.estimate.limit},
      {"limits_measured", machine.measured},
      {"facts", b.facts},
      {"compile_seconds", b.compile_seconds}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run_bench(int argc, char** argv) {
  CLI::App app(
      "Times a tunable kernel with its default config or another one on random inputs, and compares "
      "it with the device's limits. The kernel runs in this process, and its results are not checked.",
      "kiln bench");
  Request request;
  request.add_to(app);
  if (auto code = cli::parse(app, argc, argv)) return *code;
  request.options.cold = !request.warm;
  if (!request.plugin.empty()) open_plugin(request.plugin);
  if (request.kernel.empty()) return list_kernels(request.json), 0;
  const Device device = device_from_option(request.device);
  const Task task = make_task(kernel_named(request.kernel), request.dtype, request.shape, device);
  const Config config = config_for(task, request.config);
  // Measuring the machine compiles kernels; if that is forbidden, its rates are assumed.
  const bool may_measure = compile_policy() != CompilePolicy::forbid;
  const Machine machine = machine_of(device, RecordStore::standard_folder(), may_measure);
  const Bench result = bench(task, config, machine, request.options);
  request.json ? print_json(task, machine, result, request) : print_text(task, machine, result, request);
  return 0;
}

const cli::CommandRegistration
    bench_command({"bench", "times a tunable kernel and compares it with the device's limits", run_bench});

} // namespace
} // namespace kiln::tune
