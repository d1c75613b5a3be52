// Implements the tasks of launches. A task refers to kernels of ops, which are never destroyed, and copies
// everything else, because a search in the background outlives the call.
#include <kiln/ops/detail/launch_task.h>

#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/space/shape.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/runtime/kernel/kernel_core.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace kiln::ops::detail {
namespace {

using kiln::detail::KernelHandle;

std::string kind_of(DType dtype, const std::vector<LayoutClass>& layouts) {
  std::string kind(name(dtype));
  for (LayoutClass layout : layouts)
    kind += std::string(".") + cli::layout_text(layout);
  return kind;
}

// Records the kernel that the knob `whole` of a config selects.
std::shared_ptr<ir::Kernel> record_rows(const KernelHandle& whole, const KernelHandle& looped,
                                        const Config& config) {
  const bool is_whole = config.get(whole_knob).value_or(1) != 0;
  auto kernel = kiln::detail::record(*(is_whole ? whole : looped), without_whole(config));
  kernel->config_specific = true; // the recording is valid for this config only
  kernel->recorded_with = config;
  return kernel;
}

const Array& first_array(const TunableLaunch& launch) {
  for (const OpArgument& a : launch.arguments)
    if (a.array) return *a.array;
  internal_check(false, "a tunable launch has an array");
  return *launch.arguments.begin()->array;
}

} // namespace

DescribedLaunch::DescribedLaunch(const StreamAt& a, const TunableLaunch& l)
    : launch(l), at(a), words(l.arguments), kernel(l.kernel.handle(l.variant, l.arguments)),
      layouts(kernel->check_arguments(words.first(), SourceLocation(a.site))) {}

tune::Task task_of(const DescribedLaunch& described, const tune::TunableKernel& tunable,
                   std::initializer_list<std::int64_t> sizes) {
  const TunableLaunch& launch = described.launch;
  const DType dtype = first_array(launch).dtype;
  tune::Task task;
  task.kernel = described.kernel->name;
  if (launch.looped)
    task.record = [whole = described.kernel,
                   looped = launch.looped->handle(launch.variant, launch.arguments)](const Config& config) {
      return record_rows(whole, looped, config);
    };
  else
    task.record = [kernel = described.kernel](const Config& config) {
      return kiln::detail::record(*kernel, config);
    };
  task.device = described.at.stream.device();
  task.problem.sizes = tune::named_sizes(tunable.sizes);
  internal_check(task.problem.sizes.size() == sizes.size(), "an op gives all sizes of a problem");
  auto size = sizes.begin();
  for (auto& [name, value] : task.problem.sizes)
    value = *size++;
  task.space = tunable.space(dtype, task.problem, task.device);
  task.layouts = described.kernel->layouts_of(described.layouts);
  task.problem.kind = kind_of(dtype, task.layouts);
  task.words.assign(described.words.first(), described.words.first() + described.kernel->words);
  task.has_addresses = true;
  task.deterministic = launch.one_order;
  if (const OutputTolerance& t = launch.tolerance; t.parameter >= 0)
    task.outputs = {{.parameter = t.parameter, .relative = t.relative, .absolute = t.absolute}};
  if (launch.grid) task.grid = [rule = launch.grid](const Config& config) { return rule.grid(config); };
  return task;
}

// A kernel that reads sizes while it is recorded has a recording for each first seed.
cache::Key ir_of(const DescribedLaunch& described, const tune::Task& task) {
  static auto& hashes = *new std::map<std::pair<const void*, std::string>, cache::Key>;
  static auto& mutex = *new std::mutex;
  const void* kernel = &described.kernel;
  const auto known = [&](const std::string& seed) -> std::optional<cache::Key> {
    const std::lock_guard lock(mutex);
    const auto at = hashes.find({kernel, seed});
    return at == hashes.end() ? std::nullopt : std::optional(at->second);
  };
  const auto keep = [&](const std::string& seed, const ir::Kernel& recorded) {
    const cache::Key hash = tune::hash_of(recorded);
    const std::lock_guard lock(mutex);
    return hashes[{kernel, seed}] = hash;
  };
  if (const auto hash = known({})) return *hash;
  const tune::BoundSpace space = task.bound_space();
  const auto seeds = space.seeds();
  const std::string seed = seeds.empty() ? "" : space.config(seeds.front()).to_string();
  if (const auto hash = known(seed)) return *hash;
  try {
    return keep({}, *task.recorded({}));
  } catch (const UserError&) {
    return keep(seed, *task.canonical());
  }
}

} // namespace kiln::ops::detail
