// Plans the memory of a launch and makes the contents of its inputs, if there is room for both.
#include <kiln/autotune/measure/inputs.h>

#include <kiln/autotune/measure/noise.h>
#include <kiln/autotune/measure/perturb.h>
#include <kiln/autotune/measure/rounding_depth.h>
#include <kiln/jit/cli/support/text.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

namespace kiln::tune {

namespace {

// The bytes that checks need on the host: the inputs, a perturbed copy of one and, for each output, the
// reference's values, how far they move, the values of a launch, and the patterns that it is filled with.
std::int64_t host_bytes(const MemoryPlan& plan) {
  std::int64_t total = 0, largest = 0;
  for (const Block& block : plan.blocks) {
    if (block.read) largest = std::max(largest, block.bytes);
    const std::int64_t spread = size_of(block.dtype) == 8 ? sizeof(double) : sizeof(float); // motion.h
    if (block.written) total += block.bytes / size_of(block.dtype) * spread;
    total += (block.read ? block.bytes : 0) +
             (block.written ? block.bytes * (block.read ? 2 : 2 + static_cast<int>(std::size(patterns))) : 0);
  }
  return total + largest;
}

void check_room(Device device, std::int64_t needed, std::int64_t arrays) {
  const std::int64_t memory = device.properties().memory_bytes;
  if (memory <= 0 || needed <= memory - memory / 8) return;
  const auto text = [](std::int64_t bytes) { return cli::bytes_text(static_cast<double>(bytes)); };
  throw UserError("the measured launch has " + text(arrays) + " of arrays and needs " + text(needed) +
                  " to be measured and checked, but " + to_string(device) + " has only " + text(memory) +
                  "; choose smaller sizes");
}

MemoryPlan plan_with_room(const Situation& s, const ir::Kernel& kernel) {
  MemoryPlan plan = plan_memory(s.arguments, kernel);
  const std::int64_t arrays = plan.bytes(), host = host_bytes(plan);
  const bool cuda = s.device.kind() == DeviceKind::Cuda;
  check_room(s.device, cuda ? arrays : arrays + host, arrays);
  check_room(Device::cpu(), cuda ? host : arrays + host, arrays);
  return plan;
}

Large large_numbers_for(const ir::Kernel& kernel) {
  if (rounding_depth(kernel) == 0) return Large::all;
  return rounding_inside(kernel) > coarse_rounding ? Large::none
         : has_products(kernel)                    ? Large::one
                                                   : Large::all;
}

} // namespace

Inputs::Inputs(const Situation& situation, const ir::Kernel& kernel, Values kind)
    : values(kind), plan(plan_with_room(situation, kernel)),
      contents(make_contents(plan, situation.arguments, situation.seed, kind, situation.positive,
                             large_numbers_for(kernel))) {}

Inputs::Inputs(const Inputs& like, Contents other)
    : values(like.values), plan(like.plan), contents(std::move(other)) {}

bool has_room_apart(Device device, std::int64_t bytes) {
  const std::int64_t memory = device.properties().memory_bytes;
  return memory <= 0 || bytes < memory / 16;
}

} // namespace kiln::tune
