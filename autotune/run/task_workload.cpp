// Builds the workload of a task from its recorded kernel and argument words.
#include <kiln/autotune/run/task_workload.h>

#include <kiln/dsl/ir/printer.h>

namespace kiln::tune {

namespace {

kiln::detail::ParameterInfo parameter_of(const ir::Type& type) {
  using Info = kiln::detail::ParameterInfo;
  if (type.is_view()) {
    const bool pinned = type.layout != LayoutClass::Any;
    return {Info::Kind::View, type.dtype, type.readonly, type.view_rank,
            pinned ? static_cast<int>(type.layout) : Info::not_pinned};
  }
  return {type.pointer ? Info::Kind::Pointer : Info::Kind::Scalar, type.dtype, type.readonly, 0, 0};
}

void check_pointers(const Task& task, const std::vector<kiln::detail::ParameterInfo>& parameters) {
  std::size_t known = task.pointer_bytes.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind != kiln::detail::ParameterInfo::Kind::Pointer) continue;
    if (known == 0)
      throw UserError("tuning " + task.kernel + ": parameter " + std::to_string(i) +
                      " is a raw pointer, and the size of the memory behind it is unknown; set "
                      "TunedOptions::pointer_bytes");
    --known;
  }
}

} // namespace

std::vector<Argument> arguments_of(const Task& task) {
  std::vector<kiln::detail::ParameterInfo> parameters;
  const auto recorded = task.canonical();
  for (const auto& arg : recorded->body.args)
    parameters.push_back(parameter_of(arg->type));
  check_pointers(task, parameters);
  std::vector<Argument> arguments =
      arguments_of(parameters, task.words.data(), task.pointer_bytes, task.contents);
  for (int parameter : task.as_given)
    if (parameter >= 0 && static_cast<std::size_t>(parameter) < arguments.size())
      arguments[static_cast<std::size_t>(parameter)].as_given = true;
  if (!task.has_addresses)
    for (Argument& argument : arguments)
      argument.address = 0;
  return arguments;
}

Workload workload_of(const Task& task) {
  Workload w;
  w.ir = [task](const Config& config) { return ir::print(*task.recorded(config)); };
  w.arguments = arguments_of(task);
  w.grid = task.grid;
  w.outputs = task.outputs;
  if (task.reference)
    w.reference = {ir::print(*task.reference()), task.reference_config, task.grid_for(task.reference_config)};
  w.reference_function = task.reference_function;
  w.device = task.device;
  return w;
}

} // namespace kiln::tune
