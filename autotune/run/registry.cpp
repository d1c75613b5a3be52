// Keeps the registered kernels and makes tuning tasks from them.
#include <kiln/autotune/run/registry.h>

#include <kiln/autotune/space/shape.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/cli/support/registry.h>

#include <algorithm>
#include <deque>

namespace kiln::tune {

namespace {

// Constructed when the first kernel registers, which may be before the static objects of this file. A deque,
// so that kernels of plug-ins do not move the earlier ones.
std::deque<TunableKernel>& registered() {
  static std::deque<TunableKernel> kernels;
  return kernels;
}

void set_shape(Problem& problem, const TunableKernel& kernel, const std::string& shape) {
  if (!has_names(shape)) {
    problem.sizes = sizes_in_order(shape, kernel.name, std::move(problem.sizes));
    return;
  }
  for (const auto& [name, size] : named_sizes(shape)) {
    const auto at = std::find_if(problem.sizes.begin(), problem.sizes.end(),
                                 [&](const auto& known) { return known.first == name; });
    if (at == problem.sizes.end())
      throw UserError("--shape " + shape + ": " + kernel.name + " has no size \"" + name + "\"; it has " +
                      names_of(problem.sizes));
    at->second = size;
  }
}

DType choose_dtype(const TunableKernel& kernel, const std::string& text) {
  if (text.empty()) return kernel.dtypes.front();
  std::string known;
  for (DType dtype : kernel.dtypes) {
    if (text == kiln::name(dtype)) return dtype;
    known += (known.empty() ? "" : ", ") + std::string(kiln::name(dtype));
  }
  throw UserError("--dtype " + text + ": " + kernel.name + " has " + known);
}

std::vector<std::int64_t> pointer_bytes_of(const TunableKernel& kernel, const ir::Kernel& recorded,
                                           const cli::Example& example) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < example.parameters.size(); ++i) {
    const ir::Type& type = recorded.body.args[i]->type;
    const cli::ExampleParameter& parameter = example.parameters[i];
    if (!type.pointer) continue;
    if (parameter.extents.empty())
      throw UserError(std::string(kernel.name) +
                      ": its registration does not give the size of the memory behind the pointer " +
                      parameter.name + "; write " + parameter.name + "=M,N with its extents");
    std::int64_t bytes = size_of(type.dtype);
    for (const std::int64_t extent : parameter.extents)
      if (__builtin_mul_overflow(bytes, extent, &bytes))
        throw UserError("--shape: " + parameter.name + " of " + kernel.name +
                        " has more than 2^63 bytes; choose a smaller one");
    all.push_back(bytes);
  }
  return all;
}

Task made_task(const TunableKernel& kernel, DType dtype, const Problem& problem, Device device) {
  Task task = kernel.make(dtype, problem, device);
  const auto arguments = task.canonical()->body.args.size();
  while (task.parameter_names.size() < arguments)
    task.parameter_names.push_back("arg" + std::to_string(task.parameter_names.size()));
  // The problem of the launch may have other sizes than the registration.
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::equal(problem.sizes.begin(), problem.sizes.end(), task.problem.sizes.begin(),
                 task.problem.sizes.end(), same_name))
    task.for_problem = [&kernel, dtype, device](const Problem& other) {
      return make_task(kernel, std::string(kiln::name(dtype)), shape_of(other), device);
    };
  return task;
}

} // namespace

TunableRegistration::TunableRegistration(TunableKernel kernel) { registered().push_back(std::move(kernel)); }

std::vector<const TunableKernel*> tunable_kernels() {
  std::vector<const TunableKernel*> kernels;
  for (const TunableKernel& kernel : registered())
    if (&kernel == find_tunable(kernel.name)) kernels.push_back(&kernel);
  std::sort(kernels.begin(), kernels.end(),
            [](const auto* a, const auto* b) { return std::string_view(a->name) < b->name; });
  return kernels;
}

// The kernel that was registered last among those of a name for which `fits` returns true.
template <class F> static const TunableKernel* last_of(std::string_view name, const F& fits) {
  const auto& all = registered();
  const auto last = std::find_if(all.rbegin(), all.rend(),
                                 [&](const auto& kernel) { return name == kernel.name && fits(kernel); });
  return last == all.rend() ? nullptr : &*last;
}
const TunableKernel* find_tunable(std::string_view name) {
  return last_of(name, [](const TunableKernel&) { return true; });
}
const TunableKernel* find_space(std::string_view name) {
  return last_of(name, [](const TunableKernel& kernel) { return kernel.space != nullptr; });
}

Task make_task(const TunableKernel& kernel, const std::string& dtype, const std::string& shape,
               Device device) {
  Task task;
  task.kernel = kernel.name;
  task.device = device;
  task.problem.sizes = named_sizes(kernel.sizes);
  if (!shape.empty()) set_shape(task.problem, kernel, shape);
  const DType type = choose_dtype(kernel, dtype);
  if (kernel.make) return made_task(kernel, type, task.problem, device);
  task.space = kernel.space(type, task.problem, device);
  task.record = [record = kernel.record, type, problem = task.problem](const Config& config) {
    return record(type, problem, config);
  };
  const std::vector<Point>& seeds = task.space.seeds();
  if (seeds.empty())
    throw UserError(std::string(kernel.name) + ": its space has no seed; give it a config that works");
  const BoundSpace bound(task.space, task.problem, device);
  const auto recorded = task.record(bound.config(seeds.front()));
  std::vector<std::string> sizes;
  for (const auto& [name, value] : task.problem.sizes)
    sizes.push_back(name + "=" + std::to_string(value));
  const cli::RegisteredKernel registered{.name = kernel.name,
                                         .summary = kernel.summary,
                                         .record = nullptr,
                                         .sizes = kernel.sizes,
                                         .parameters = kernel.parameters};
  const cli::Example example = cli::make_example(*recorded, &registered, sizes);
  if (!example.complete)
    throw UserError(std::string(kernel.name) +
                    ": its registration leaves a parameter without a size or a value");
  task.layouts = example.layouts;
  for (const cli::ExampleParameter& parameter : example.parameters)
    task.parameter_names.push_back(parameter.name);
  task.words = example.words();
  task.pointer_bytes = pointer_bytes_of(kernel, *recorded, example);
  if (kernel.grid)
    task.grid = [grid = kernel.grid, problem = task.problem](const Config& config) {
      return grid(config, problem);
    };
  task.problem.kind = std::string(kiln::name(type));
  for (LayoutClass layout : task.layouts)
    task.problem.kind += std::string(".") + cli::layout_text(layout);
  task.for_problem = [&kernel, dtype, device](const Problem& problem) {
    return make_task(kernel, dtype, shape_of(problem), device);
  };
  return task;
}

} // namespace kiln::tune
