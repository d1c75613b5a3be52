// Times one config and compares it with the device's limits.
#include <kiln/autotune/cli/bench.h>
#include <kiln/autotune/run/task_workload.h>

#include <kiln/autotune/measure/trial_runner.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace kiln::tune {

namespace {

// `own` is the part of the config that is for the kernel.
Terms terms_of(const Task& task, const Config& config, const Config& own) {
  KernelCase kernel;
  kernel.recorded = task.record(config);
  kernel.layouts = task.layouts;
  kernel.words.assign(task.words.begin(), task.words.end());
  if (const auto grid = task.grid_for(config)) kernel.grid = {grid->x, grid->y, grid->z};
  return count_terms(kernel, own, task.device);
}

Bench::Share arithmetic_of(const Terms& t, const Machine& m, double seconds) {
  const double flops = t.useful_flops > 0 ? t.useful_flops : t.flops;
  if (2 * t.dot_flops > t.flops) return {flops / seconds, m.dot_rate(t.dot_type), "products"};
  return {flops / seconds, m.elementwise, "elementwise"};
}

// Counts each byte once, and compares with the fastest memory that holds all bytes.
Bench::Share memory_of(const Terms& t, const Machine& m, bool cold, double seconds) {
  const double rate = t.unique / seconds;
  if (cold || t.unique > m.last_cache_bytes) return {rate, m.memory, "copy from memory"};
  if (t.unique > m.private_cache_bytes) return {rate, m.last_cache, "copy from the last-level cache"};
  return {rate, m.private_cache, "copy from the cores' own caches"};
}

} // namespace

Config config_for(const Task& task, const std::string& changes) {
  const BoundSpace space(task.space, task.problem, task.device);
  const std::vector<Point> seeds = space.seeds();
  if (seeds.empty())
    throw UserError(task.kernel + ": no seed of the space is legal for " + task.problem.to_string());
  Config config = space.config(seeds.front());
  const IrKernel kernel(task.record(config));
  const Config changed = Config::parse(changes);
  for (const Binding& binding : changed) {
    Config alone;
    alone.set(binding.name, binding.value);
    const bool is_knob = std::any_of(space.knobs().begin(), space.knobs().end(),
                                     [&](const Knob& knob) { return knob.name == binding.name; });
    if (!is_knob && kernel.config_of(alone).size() == 0)
      throw UserError("--config " + changes + ": " + task.kernel + " has no \"" + binding.name +
                      "\"; its default config is " + config.to_string());
    config.set(binding);
  }
  return config;
}

Bench bench(const Task& task, const Config& config, const Machine& machine, const BenchOptions& options) {
  const Workload workload = workload_of(task);
  const IrKernel kernel(task.record(config), pinned_layouts(workload.arguments));
  const MemoryPlan plan = plan_memory(workload.arguments, kernel.recorded());
  const Device device = task.device;
  if (const std::int64_t memory = device.properties().memory_bytes;
      memory > 0 && plan.bytes() > memory / 8 * 7)
    throw UserError(task.kernel + " " + task.problem.to_string() + ": its arrays have " +
                    std::to_string(plan.bytes()) + " bytes, but " + to_string(device) + " has only " +
                    std::to_string(memory));
  Bench result;
  result.config = kernel.config_of(config);
  result.terms = terms_of(task, config, result.config);
  result.estimate = estimate(result.terms, machine, device.kind());

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  result.facts = facts_of(*kernel.compile(device, config, imagined_words(plan, workload.arguments)));
  result.compile_seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  const TimingPlan timing{
      .least_seconds = options.seconds / 4, .most_seconds = options.seconds, .cold = options.cold};
  const Contents contents = make_contents(plan, workload.arguments, options.seed);
  Stream stream(device);
  std::vector<ArraySet> sets;
  const int count = sets_for(timing, device, plan.bytes());
  sets.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    sets.emplace_back(device, plan, workload.arguments, Surroundings::bytes);
    sets.back().upload_inputs(stream, contents);
    sets.back().restore(stream, contents);
  }
  Timer timer(stream, sets, contents, timing);
  result.timing = timer.time({&kernel, config, task.grid_for(config)}, 0);

  const double seconds = result.timing.seconds;
  if (seconds <= 0) return result;
  result.arithmetic = arithmetic_of(result.terms, machine, seconds);
  result.memory = memory_of(result.terms, machine, options.cold, seconds);
  result.bound_share = result.estimate.bound / seconds;
  return result;
}

} // namespace kiln::tune
