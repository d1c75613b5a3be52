// Finds the blocks that a kernel updates, and compares their contents before two launches.
#include <kiln/autotune/measure/launch_chain.h>

#include <kiln/autotune/measure/decoder.h>
#include <kiln/autotune/measure/steering.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

std::size_t count_of_not_finite(const std::vector<unsigned char>& bytes, DType dtype) {
  const Decoder decode(dtype);
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::size_t count = 0;
  for (std::size_t at = 0; at + size <= bytes.size(); at += size)
    count += !std::isfinite(decode(bytes.data() + at));
  return count;
}

} // namespace

std::vector<bool> updated_blocks(const std::vector<Argument>& arguments,
                                 const std::vector<OutputCheck>& outputs, const MemoryPlan& plan,
                                 const ir::Kernel& kernel) {
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(kernel);
  const std::vector<Steering> steering = steering_of(kernel);
  std::vector<bool> updated(plan.blocks.size());
  const auto block_of = [&](std::size_t i) { return static_cast<std::size_t>(plan.places[i].block); };
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (plan.places[i].block >= 0 && uses[i].read && plan.blocks[block_of(i)].written)
      updated[block_of(i)] = true;
  for (const OutputCheck& output : outputs)
    if (const auto i = static_cast<std::size_t>(output.parameter);
        output.ignored && i < plan.places.size() && plan.places[i].block >= 0)
      updated[block_of(i)] = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (plan.places[i].block < 0) continue;
    if (arguments[i].as_given) updated[block_of(i)] = false;
    if (updated[block_of(i)] && steering[i].loops) return {};
  }
  return updated;
}

bool is_another_state(const MemoryPlan& plan, const std::vector<bool>& updated, const Contents& last,
                      const Contents& next) {
  bool differs = false;
  for (std::size_t i = 0; i < updated.size(); ++i) {
    if (!updated[i]) continue;
    const DType dtype = plan.blocks[i].dtype;
    differs |= last.blocks[i] != next.blocks[i];
    if (is_float(dtype) &&
        count_of_not_finite(next.blocks[i], dtype) > count_of_not_finite(last.blocks[i], dtype))
      return false;
  }
  return differs;
}

} // namespace kiln::tune
