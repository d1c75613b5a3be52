// Plans scans along an axis of a tile.
#include <kiln/jit/gpu/exchange/scan.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/exchange/conversion_sides.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <algorithm>

namespace kiln::gpu {
namespace {

// Plans how each thread gathers the totals of 2^bits neighbouring blocks, which have 2^bit elements each
// along the axis.
Scan::Gather gather(const LinearLayout& layout, const std::string& axis, int bit, int bits,
                    int element_bytes) {
  // Split the axis into three: the position in a block, the number of the gathered block, and their group.
  const LinearLayout parts =
      layout.split_out(axis, {{"within", bit}, {"part", bits}, {axis, layout.out_bits(axis) - bit - bits}});
  Scan::Gather result;
  result.partial = parts.without_out("within");
  const LinearLayout group = result.partial.without_out("part");
  result.gathered = (group * LinearLayout::identity(bits, in_register, "part"));
  std::vector<std::string> outs;
  for (const auto& d : result.partial.outs())
    outs.push_back(d.name);
  result.gathered = result.gathered.with_outs(outs);
  result.exchange = plan_conversion(result.partial, result.gathered, element_bytes);
  return result;
}

} // namespace

std::int64_t Scan::scratch_bytes() const {
  std::int64_t most = 0;
  for (const Stage& stage : stages)
    if (const auto* gather = std::get_if<Gather>(&stage.how))
      if (const auto* shared = std::get_if<SharedExchange>(&gather->exchange))
        most = std::max(most, shared->bytes);
  return most;
}

Scan plan_scan(const LinearLayout& any_layout, int axis, int element_bytes) {
  const LinearLayout layout = any_layout.with_ins({in_register, in_lane, in_warp});
  internal_check(layout.is_surjective(),
                 [&] { return "a scan needs a layout that reaches every element:\n" + layout.to_string(); });
  const std::string name = axis_name(axis);
  const int register_bits = layout.in_bits(in_register), axis_bits = layout.out_bits(name);
  Scan plan;
  auto along = [&](const char* in) {
    Columns columns;
    for (int i = 0; i < layout.in_bits(in); ++i)
      columns.push_back(static_cast<std::uint64_t>(layout.basis(in, i, name)));
    return columns;
  };
  const Columns registers = along(in_register), lanes = along(in_lane), warps = along(in_warp);
  plan.coordinate.lane.assign(lanes.begin(), lanes.end());
  plan.coordinate.warp.assign(warps.begin(), warps.end());
  for (std::uint64_t r = 0; r < std::uint64_t{1} << register_bits; ++r)
    plan.register_coordinate.push_back(static_cast<std::uint32_t>(combined(registers, r)));

  Echelon places; // of one warp
  for (int i = 0; i < register_bits + layout.in_bits(in_lane); ++i)
    places.add(layout.column(i), std::uint64_t{1} << i);
  int axis_start = 0;
  for (const auto& d : layout.outs()) {
    if (d.name == name) break;
    axis_start += d.bits;
  }
  auto partner = [&](int bit) { return places.reduce(std::uint64_t{1} << (axis_start + bit)); };

  for (int bit = 0; bit < axis_bits;) {
    if (const auto row = partner(bit); row.value == 0) {
      plan.stages.push_back(
          {bit, 1,
           Scan::Flip{static_cast<int>(row.combination >> register_bits),
                      static_cast<int>(row.combination & ((std::uint64_t{1} << register_bits) - 1))}});
      ++bit;
      continue;
    }
    int bits = 1;
    while (bit + bits < axis_bits && partner(bit + bits).value != 0)
      ++bits;
    plan.stages.push_back({bit, bits, gather(layout, name, bit, bits, element_bytes)});
    bit += bits;
  }
  return plan;
}

} // namespace kiln::gpu
