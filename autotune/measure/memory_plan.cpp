// Lays out arguments in blocks, and derives from the IR which blocks a kernel reads and writes.
#include <kiln/autotune/measure/memory_plan.h>

#include <kiln/autotune/measure/steering.h>
#include <kiln/dsl/error.h>
#include <kiln/jit/passes/parameter_uses.h>

#include <algorithm>
#include <numeric>

namespace kiln::tune {

namespace {

struct Range { // the bytes of an argument, relative to its pointer
  std::int64_t low = 0, high = 0;
};
using ir::Opcode;

[[noreturn]] void refuse(std::size_t index, const std::string& what) {
  throw UserError("argument " + std::to_string(index + 1) + " of the measured launch " + what);
}

void check_parameter(const Argument& a, const ir::Type& type, std::size_t index) {
  using Kind = Argument::Kind;
  const Kind wanted = type.is_view() ? Kind::view : type.pointer ? Kind::pointer : Kind::scalar;
  if (a.kind != wanted || a.dtype != type.dtype)
    refuse(index, "does not match the kernel's parameter, which is " + type.to_string());
  if (wanted == Kind::view && a.extents.size() != static_cast<std::size_t>(type.view_rank))
    refuse(index,
           "has " + std::to_string(a.extents.size()) + " extents, but the kernel takes  " + type.to_string());
  if (wanted == Kind::pointer && a.bytes <= 0) refuse(index, "is a pointer to 0 bytes");
}

} // namespace

std::int64_t MemoryPlan::bytes() const {
  std::int64_t total = 0;
  for (const Block& b : blocks)
    total += b.bytes;
  return total;
}

std::string MemoryPlan::name_of(std::size_t block, const std::vector<Argument>& arguments) const {
  std::string text;
  int named = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].block != static_cast<int>(block) || (blocks[block].written && arguments[i].readonly))
      continue;
    text += (named++ ? " and parameter " : "parameter ") + std::to_string(i) + " (" +
            std::string(kiln::name(arguments[i].dtype)) + ")";
  }
  return text + (named > 1 ? ", which share memory" : "");
}

std::vector<std::uint64_t> MemoryPlan::words(const std::vector<Argument>& arguments,
                                             const std::vector<std::uint64_t>& addresses) const {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    if (places[i].block < 0) {
      all.push_back(a.word);
      continue;
    }
    all.push_back(addresses[static_cast<std::size_t>(places[i].block)] +
                  static_cast<std::uint64_t>(places[i].data));
    for (std::int64_t extent : a.extents)
      all.push_back(static_cast<std::uint64_t>(extent));
    for (std::int64_t stride : a.strides)
      all.push_back(static_cast<std::uint64_t>(stride));
  }
  return all;
}

MemoryPlan plan_memory(const std::vector<Argument>& arguments, const ir::Kernel& kernel) {
  const auto& parameters = kernel.body.args;
  if (arguments.size() != parameters.size())
    throw UserError("the measured launch has " + std::to_string(arguments.size()) +
                    " arguments, but kernel \"" + kernel.name + "\" takes " +
                    std::to_string(parameters.size()));
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    check_parameter(arguments[i], parameters[i]->type, i);
    ranges.push_back(bytes_of(arguments[i], i));
  }
  // In order of addresses, each argument that overlaps the previous ones joins their block. Arguments without
  // an address and empty ones get separate blocks.
  std::vector<std::size_t> order(arguments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto lowest = [&](std::size_t i) {
    return arguments[i].address + static_cast<std::uint64_t>(ranges[i].low);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool placed_a = arguments[a].address != 0, placed_b = arguments[b].address != 0;
    return placed_a != placed_b ? placed_a : placed_a && lowest(a) < lowest(b);
  });
  const std::vector<passes::ParameterUse> uses = passes::parameter_uses(kernel);
  const std::vector<Steering> steering = steering_of(kernel);
  MemoryPlan plan;
  plan.places.resize(arguments.size());
  std::uint64_t base = 0, end = 0; // of the current block, as application addresses
  for (std::size_t i : order) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::scalar) continue;
    const std::int64_t bytes = ranges[i].high - ranges[i].low;
    const bool placed = a.address != 0 && bytes > 0;
    if (!placed || plan.blocks.empty() || lowest(i) >= end) {
      base = placed ? lowest(i) : 0;
      end = 0;
      plan.blocks.push_back(
          {.bytes = 0, .misalignment = static_cast<std::int64_t>(base % 64), .dtype = a.dtype});
    }
    Block& block = plan.blocks.back();
    MemoryPlan::Place& place = plan.places[i];
    place.block = static_cast<int>(plan.blocks.size()) - 1;
    place.begin = placed ? static_cast<std::int64_t>(lowest(i) - base) : 0;
    place.data = place.begin - ranges[i].low;
    place.bytes = bytes;
    place.steers = steering[i].any();
    block.bytes = std::max(block.bytes, place.begin + bytes);
    if (placed) end = std::max(end, base + static_cast<std::uint64_t>(place.begin + bytes));
    if (!a.readonly && !block.written) block.dtype = a.dtype;
    block.written |= !a.readonly;
    block.read |= a.readonly || uses[i].read || a.fill.kind != Fill::Kind::random;
  }
  constexpr std::int64_t most = std::int64_t{1} << 46;
  for (const Block& b : plan.blocks)
    if (b.bytes > most)
      throw UserError("the measured launch has an array of " + std::to_string(b.bytes) + " bytes");
  return plan;
}

} // namespace kiln::tune
