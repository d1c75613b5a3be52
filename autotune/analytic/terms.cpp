// Counts the work of a launch (programs, flops, bytes) on the lowered IR.
#include <kiln/autotune/analytic/terms.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/jit/cpu/facts/plan.h>
#include <kiln/jit/cpu/rewrite/lower_for_cpu.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/layout_plan.h>
#include <kiln/jit/gpu/legality.h>
#include <kiln/jit/passes/cost.h>
#include <kiln/jit/passes/passes.h>
#include <kiln/jit/runtime/kernel/compile.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kiln::tune {

namespace {

double elements_of(const ir::Type& type) {
  double n = 1;
  for (const auto& extent : type.shape)
    n *= static_cast<double>(extent.value());
  return n;
}
double bytes_of(const ir::Type& type) { return elements_of(type) * type.element_bytes(); }

// Flops of dots and of all operations, weighted as if every operation of a loop ran equally often.
struct DotShare {
  double dots = 0, all = 0;
};

void walk_tiles(const ir::Region& region, Terms& t, DotShare& share, double times) {
  for (const auto& op : region.ops) {
    // Loops over K dominate everything outside of them.
    const double inner = op->is(ir::Opcode::For) ? times * 64 : times;
    for (const auto& nested : op->regions)
      walk_tiles(*nested, t, share, inner);
    for (const auto& result : op->results)
      if (result->type.is_tile()) t.tile_bytes = std::max(t.tile_bytes, bytes_of(result->type));
    if (op->is(ir::Opcode::Reduce)) t.row_like = true;
    if (op->is(ir::Opcode::Dot)) {
      const ir::Type &a = op->operand(0)->type, &sums = op->result()->type;
      const double k = static_cast<double>(a.shape.back().value());
      const double flops = 2 * elements_of(sums) * k * times;
      share.dots += flops, share.all += flops;
      t.dot_type = a.dtype;
      t.rows = static_cast<double>(sums.shape[sums.shape.size() - 2].value());
      t.columns = static_cast<double>(sums.shape.back().value());
      t.depth = k;
    } else if (op->num_results() == 1 && op->result()->type.is_tile() && is_float(op->result()->type.dtype) &&
               op->info().effect == ir::Effect::Pure) {
      share.all += elements_of(op->result()->type) * passes::flops_of(op->info().code) * times;
    }
  }
}

// The programs (or groups of programs) along one axis of the grid: whole ones, and the part of the last one
// that is inside of the view.
struct AxisShare {
  double whole = 1, rest = 0;
};

// Returns the work of the busiest thread, in programs of average size, if threads first take whole programs
// in turn and then the partial ones.
double busiest_thread(const std::vector<AxisShare>& axes, int threads) {
  double largest = 1, whole = 1, all = 1, count = 1;
  for (const AxisShare& axis : axes) {
    largest *= axis.whole > 0 ? 1 : axis.rest;
    whole *= std::max(1.0, axis.whole);
    all *= axis.whole + axis.rest;
    count *= axis.whole + (axis.rest > 0);
  }
  if (all <= 0) return 1;
  const double in_turn = std::ceil(whole / threads) * largest;
  const double smaller = all - whole * largest, left = smaller - (in_turn * threads - whole * largest);
  const double piece = smaller / std::max(1.0, count - whole);
  return (in_turn + (left > 0 ? std::max(left / threads, piece) : 0)) * count / all;
}

// `words` are the launch's argument words, or empty.
AxisShare share_of_axis(const ir::Kernel& lowered, const std::vector<std::uint64_t>& words, std::size_t axis,
                        std::int64_t programs, std::int64_t group) {
  double units = static_cast<double>(programs) / static_cast<double>(group);
  if (axis < lowered.grid.size() && !words.empty()) {
    const ir::GridAxis& tiled = lowered.grid[axis];
    const int word = ir::ArgumentLayout::of(lowered).extent_word(tiled.param, tiled.axis);
    units = static_cast<double>(words[static_cast<std::size_t>(word)]) /
            static_cast<double>(tiled.tile.value() * group);
  }
  return {std::floor(units), units - std::floor(units)};
}

void share_products(const ir::Kernel& lowered, const std::vector<std::uint64_t>& words,
                    const std::vector<std::int64_t>& grid, Device device, Terms& t) {
  const int threads = std::max(1, device.properties().num_threads);
  t.shared_programs = t.programs;
  std::array<std::int64_t, 8> group;
  group.fill(1);
  const cpu::Grouping grouping = cpu::grouping_of(lowered, cpu::host_target());
  const bool runs = !grid.empty() && std::all_of(grid.begin(), grid.end(), [](auto n) { return n > 0; });
  if (grouping.has_groups() && runs) {
    std::array<std::int64_t, 8> whole;
    whole.fill(1);
    std::copy(grid.begin(), grid.end(), whole.begin());
    group = cpu::choose_group(grouping, whole, threads, words.empty() ? nullptr : words.data());
    double groups = 1;
    for (std::size_t axis = 0; axis < grid.size(); ++axis)
      groups *= std::ceil(static_cast<double>(grid[axis]) / static_cast<double>(group[axis]));
    t.shared_programs = std::max(1.0, groups);
    if (grouping.m_axis >= 0) t.rows *= static_cast<double>(group[static_cast<std::size_t>(grouping.m_axis)]);
    if (grouping.n_axis >= 0)
      t.columns *= static_cast<double>(group[static_cast<std::size_t>(grouping.n_axis)]);
    if (grouping.computed_axis >= 0) { // a square of tiles
      const double side =
          std::sqrt(static_cast<double>(group[static_cast<std::size_t>(grouping.computed_axis)]));
      t.rows *= side, t.columns *= side;
    }
  }
  t.busiest = std::ceil(t.shared_programs / threads);
  if (!runs) return;
  std::vector<AxisShare> axes;
  for (std::size_t axis = 0; axis < grid.size(); ++axis)
    axes.push_back(share_of_axis(lowered, words, axis, grid[axis], group[axis]));
  t.busiest = busiest_thread(axes, threads);
}

double cpu_scratch(const ir::Kernel& lowered) {
  const cpu::Plan plan(lowered);
  double bytes = 0;
  ir::walk(lowered.body, [&](const ir::Op& op) {
    for (const auto& result : op.results)
      if (result->type.is_tile() && plan.has_buffer(result.get())) bytes += bytes_of(result->type);
  });
  return bytes;
}

// Estimates the words per thread of all values with layouts. Not all of them are live at once, so half is
// counted.
double gpu_registers(const gpu::LayoutPlan& plan) {
  double words = 0;
  for (const auto& [value, layout] : plan.layouts)
    words = std::max(words, elements_of(value->type) / (32.0 * plan.warps) * value->type.element_bytes() / 4);
  return 2.5 * words;
}

std::string arch_of(Device device) {
  const int sm = device.properties().sm;
  return sm >= 100 ? "sm_100a" : sm >= 90 ? "sm_90a" : "sm_80";
}

float logarithm(double x) { return static_cast<float>(std::log2(std::max(x, 1e-3))); }

} // namespace

const std::array<const char*, Terms::column_count>& Terms::column_names() {
  static const std::array<const char*, column_count> names = {
      "log programs",  "log groups", "waste",         "log flops",        "log dot flops", "log traffic",
      "log unique",    "log reuse",  "log a program", "log largest tile", "log scratch",   "log registers",
      "log intensity", "log rows",   "log columns",   "log depth"};
  return names;
}

std::array<float, Terms::column_count> Terms::columns_of() const {
  const double traffic = read + written;
  return {logarithm(programs),
          logarithm(shared_programs),
          logarithm(busiest * programs / std::max(1.0, shared_programs)),
          logarithm(flops),
          logarithm(dot_flops),
          logarithm(traffic),
          logarithm(unique),
          logarithm(traffic / std::max(1.0, unique)),
          logarithm(program_bytes),
          logarithm(tile_bytes),
          logarithm(scratch_bytes),
          logarithm(registers),
          logarithm(flops / std::max(1.0, traffic)),
          logarithm(rows),
          logarithm(columns),
          logarithm(depth)};
}

Terms count_terms(const KernelCase& kernel, const Config& config, Device device) {
  const Config used = config_for(device, config);
  const auto lowered = passes::lower_generic(*kernel.recorded, {used, kernel.layouts});
  Terms t;
  if (!device.is_cpu()) {
    const gpu::PtxOptions options = gpu::ptx_options(lowered->name, used);
    gpu::check_legal(*lowered, arch_of(device));
    const gpu::LayoutPlan plan = gpu::plan_layouts(*lowered, options.warps);
    gpu::check_sizes(*lowered, plan);
    t.registers = gpu_registers(plan);
    t.warps = options.warps;
  }
  const passes::Cost cost = passes::cost_of(*lowered, {kernel.words, kernel.grid});
  const double scale = cost.programs ? 1 : 0;
  t.programs = std::max(1.0, cost.programs.value_or(1));
  t.flops = cost.flops;
  t.reductions = cost.reductions;
  t.read = cost.read(), t.written = cost.written(), t.unique = cost.unique_bytes();
  t.program_bytes = (t.read + t.written) / (scale > 0 ? t.programs : 1);
  DotShare share;
  walk_tiles(lowered->body, t, share, 1);
  t.dot_flops = share.all > 0 ? t.flops * share.dots / share.all : 0;
  std::vector<std::int64_t> grid = kernel.grid;
  std::vector<std::uint64_t> words;
  if (std::all_of(kernel.words.begin(), kernel.words.end(),
                  [](const auto& word) { return word.has_value(); })) {
    for (const auto& word : kernel.words)
      words.push_back(*word);
    if (grid.empty()) grid = ir::grid_of(*lowered, words.data());
    t.useful_flops = cost.in_bounds_flops;
  }
  if (device.is_cpu()) {
    share_products(*lowered, words, grid, device, t);
    t.scratch_bytes = cpu_scratch(*lowered);
    if (t.scratch_bytes > static_cast<double>(device.limits().max_scratch_bytes))
      throw UserError("the tiles of {" + used.to_string() + "} need " +
                      std::to_string(static_cast<std::int64_t>(t.scratch_bytes)) +
                      " bytes of scratch memory, but a program has at most " +
                      std::to_string(device.limits().max_scratch_bytes) + "; choose smaller tiles");
  } else {
    t.shared_programs = t.programs;
    // The two factors of a dot pass through shared memory.
    if (t.depth > 0)
      t.scratch_bytes = (t.rows + t.columns) * t.depth * static_cast<double>(size_of(t.dot_type));
  }
  return t;
}

} // namespace kiln::tune
