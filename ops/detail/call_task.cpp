// Makes tuning tasks from calls of ops: rehearses the call and keeps the task of a launch.
#include <kiln/ops/detail/call_task.h>

#include <kiln/autotune/run/registry.h>
#include <kiln/autotune/run/task_contents.h>
#include <kiln/jit/runtime/rehearsal.h>
#include <kiln/ops/detail/known_config.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace kiln::ops::detail {
namespace {

UserError without_task(const TunableCall& call, const std::string& others) {
  const std::string what = std::string("the call registered as ") + call.name + " launches no kernel ";
  if (others.empty())
    return UserError(what +
                     "that the tuner has a space for with these sizes; `kiln tune --list` names the ops "
                     "that have one");
  return UserError(what + "\"" + call.kernel + "\" that the tuner has a space for; it launches " + others);
}

// Static objects cannot report mistakes well, so that a registration is checked when its kernel is used.
void check_registration(const TunableCall& call) {
  const auto refuse = [&](const char* what) {
    throw UserError("the registration of a call" +
                    (call.name ? ", " + std::string(call.name) + "," : std::string()) + " has no " + what);
  };
  if (!call.name) refuse("name; set .name to what is typed after kiln tune");
  if (!call.call) refuse("call; set .call to a function that calls an op");
  if (!call.sizes) refuse("sizes; set .sizes to their names and defaults, such as \"M=64,N=64\"");
  if (call.dtypes.empty()) refuse("dtypes; set .dtypes, or leave it out for f32");
}

// Calls the registered function. Its exceptions may be of any type.
void make_call(const TunableCall& call, Stream& stream, DType dtype, const tune::Problem& problem) {
  const auto failed = [&] { return std::string("the call registered as ") + call.name + " failed: "; };
  try {
    call.call(stream, dtype, problem);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(failed() + error.what());
  } catch (...) {
    throw UserError(failed() + "it threw what is not a std::exception; throw kiln::UserError");
  }
}

} // namespace

tune::Task task_of_call(const TunableCall& call, DType dtype, const tune::Problem& problem, Device device) {
  check_registration(call);
  std::optional<tune::Task> wanted;
  std::string others;
  const LookupRecorder recorder([&](tune::Task task, Stream& stream) {
    if (wanted) return;
    if (call.kernel && task.kernel != call.kernel) {
      others += (others.empty() ? "" : ", ") + task.kernel;
      return;
    }
    // The tensors of the call exist only now.
    task.contents =
        tune::copy_contents(task, stream, tune::Copied::all, std::numeric_limits<std::int64_t>::max()).of;
    stream.synchronize();
    wanted = std::move(task);
  });
  Stream stream(device);
  rehearse([&] { make_call(call, stream, dtype, problem); });
  if (!wanted) throw without_task(call, others);
  return *std::move(wanted);
}

TunableOp::TunableOp(const TunableCall& call, SpaceOf space) {
  tune::TunableRegistration({
      .name = call.name ? call.name : "without_name",
      .summary = call.summary ? call.summary : "",
      .dtypes = call.dtypes.empty() ? std::vector{DType::F32} : call.dtypes,
      .record = nullptr,
      .space = space,
      .sizes = call.sizes ? call.sizes : "",
      .parameters = nullptr,
      .make = [call](DType dtype, const tune::Problem& problem,
                     Device device) { return task_of_call(call, dtype, problem, device); },
  });
}

Array stand_in_array(DType dtype, std::initializer_list<std::int64_t> extents) {
  Array a{nullptr, dtype, false, static_cast<int>(extents.size())};
  std::copy(extents.begin(), extents.end(), a.extents);
  std::int64_t stride = 1;
  for (int i = a.rank; i-- > 0; stride *= a.extents[i])
    a.strides[i] = stride;
  a.data = kiln::detail::stand_in_memory(stride * size_of(dtype));
  return a;
}

} // namespace kiln::ops::detail
