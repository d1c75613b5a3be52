// Implements the checks of a task: its problem, its tolerances, its reference and its key.
#include <kiln/autotune/run/check_task.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/passes/parameter_uses.h>
#include <kiln/jit/runtime/kernel/compile_policy.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

// Where the kernel makes a pointer from a number; null: nowhere.
const ir::Op* reads_address(const ir::Kernel& kernel) {
  const ir::Op* found = nullptr;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    if (op.is(ir::Opcode::Bitcast) && op.result()->type.pointer && !op.operand(0)->type.pointer) found = &op;
  });
  return found;
}

void check_outputs(const Task& task) {
  for (const OutputCheck& check : task.outputs) {
    const auto is_bound = [](double v) { return std::isfinite(v) && v >= 0; };
    if (is_bound(check.relative) && is_bound(check.absolute) && is_bound(check.share) && check.share <= 1)
      continue;
    throw UserError("tuning " + task.kernel + ": TunedOptions::outputs gives parameter " +
                    std::to_string(check.parameter) + " a tolerance that is none; relative and absolute " +
                    "must be numbers from 0 on, and share a number from 0 to 1");
  }
}

void check_as_given(const Task& task) {
  const auto count = static_cast<int>(task.canonical()->body.args.size());
  for (int parameter : task.as_given)
    if (parameter < 0 || parameter >= count)
      throw UserError("tuning " + task.kernel + ": TunedOptions::as_given names parameter " +
                      std::to_string(parameter) + ", but the kernel has " + std::to_string(count) +
                      ", counted from 0");
}

// The parameters must have the same kinds, dtypes and ranks. What their types pin or make const may differ.
void check_reference(const Task& task) {
  if (!task.reference) return;
  const std::shared_ptr<const ir::Kernel> own = task.canonical(), other = task.reference();
  const std::string what = "tuning " + task.kernel + ": TunedOptions::reference is kernel \"" + other->name +
                           "\", ",
                    fix = "; give it the parameters of " + task.kernel;
  const auto& parameters = own->body.args;
  const auto& others = other->body.args;
  if (parameters.size() != others.size())
    throw UserError(what + "which has " + std::to_string(others.size()) + " parameters instead of " +
                    std::to_string(parameters.size()) + fix);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ir::Type &a = parameters[i]->type, &b = others[i]->type;
    if (a.is_view() == b.is_view() && a.pointer == b.pointer && a.dtype == b.dtype &&
        a.view_rank == b.view_rank)
      continue;
    throw UserError(what + "whose parameter " + std::to_string(i) + " is " + b.to_string() + " instead of " +
                    a.to_string() + fix);
  }
}

} // namespace

void check_tunable(const Task& task) {
  if (is_empty(task.problem))
    throw UserError("tuning " + task.kernel + " for " + task.problem.to_string() +
                    ": a size is 0, so that there is nothing to measure; give all sizes a positive number");
  if (compile_policy() == CompilePolicy::forbid)
    throw UserError("tuning " + task.kernel +
                    " compiles kernels, which the compile policy forbids; tune with " +
                    "KILN_COMPILE_POLICY=allow, and ship the result with `kiln records export`");
  const auto kernel = task.canonical();
  if (const ir::Op* op = reads_address(*kernel))
    throw UserError(
        "tuning " + task.kernel + ": the kernel makes a pointer from a number (" + to_string(op->loc) +
        "), and the memory at that address does not exist in the processes that measure; pass the "
        "memory as a parameter, or choose the config yourself");
}

void check_comparison(const Task& task) {
  check_outputs(task);
  check_as_given(task);
  check_reference(task);
}

void check_key(const std::string& key) {
  constexpr std::size_t most = 1000;
  if (key.size() <= most) return;
  throw UserError("a key of " + std::to_string(key.size()) + " bytes (\"" + key.substr(0, 20) +
                  "...\") is too long to be stored with each trial; use at most " + std::to_string(most) +
                  ", for example a hash of the text");
}

std::string warning_of_ignored(const Task& task) {
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(*task.canonical());
  bool any = false;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].written) continue;
    any = true;
    const bool ignored = std::any_of(task.outputs.begin(), task.outputs.end(), [&](const OutputCheck& check) {
      return check.parameter == static_cast<int>(i) && check.ignored;
    });
    if (!ignored) return {};
  }
  if (!any) return {};
  return "nothing is compared, because TunedOptions::outputs ignores all outputs, so that wrong configs are "
         "not noticed; ignore only scratch memory, and declare a tolerance or a function (.compare) for "
         "results";
}

} // namespace kiln::tune
