// Describes a task's launches to the processes that measure them.
#include <kiln/autotune/task_workload.h>

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

} // namespace

Workload workload_of(const Task& task) {
  Workload w;
  w.ir = [record = task.record](const Config& config) { return ir::print(*record(config)); };
  std::vector<kiln::detail::ParameterInfo> parameters;
  const auto recorded = task.canonical();
  for (const auto& arg : recorded->body.args)
    parameters.push_back(parameter_of(arg->type));
  w.arguments = arguments_of(parameters, task.words.data(), {},
                             task.device.is_cpu() && task.live ? Integers::copied : Integers::random);
  if (!task.live)
    for (Argument& argument : w.arguments)
      argument.address = 0;
  if (task.grid) w.grid = [grid = *task.grid](const Config&) { return grid; };
  w.device = task.device;
  return w;
}

} // namespace kiln::tune
