// Checks what the lambdas of users record.
#include <kiln/ops/detail/hook.h>

#include <kiln/dsl/detail/recording.h>

#include <string>

namespace kiln::ops::detail {
namespace {

// Whether each element of a result depends on the elements at its place alone.
bool is_allowed(const ir::Op& op) {
  switch (op.info().cls) {
  case ir::OpClass::Lookup:
  case ir::OpClass::Atomic:
  case ir::OpClass::Dot:
  case ir::OpClass::Collective:
  case ir::OpClass::Control: return false;
  case ir::OpClass::Shape:
    return !op.is(ir::Opcode::Permute) && !op.is(ir::Opcode::Reshape) && !op.is(ir::Opcode::Extract);
  default: return op.info().effect == ir::Effect::Pure || op.info().effect == ir::Effect::Read;
  }
}

} // namespace

Handle record_hook(const Hook& hook, const Handle* values, const Handle* views, const char* what) {
  const kiln::detail::Recording& recording = kiln::detail::Recording::need(what);
  const ir::Region& region = *recording.scopes.back().region;
  const std::size_t first = region.ops.size();
  const Handle result = hook.record(values, views);
  for (std::size_t i = first; i < region.ops.size(); ++i) {
    const ir::Op& op = *region.ops[i];
    if (!is_allowed(op))
      throw UserError(op.loc, std::string(what) + " uses " + std::string(ir::name(op.code)) +
                                  "; it may read views and compute element by element, because it can be "
                                  "recorded several times and for tiles of any size");
  }
  return result;
}

} // namespace kiln::ops::detail
