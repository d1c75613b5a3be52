// Checks the dtypes of operations, how deep loops are nested, and how much code and data a thread has.
#include <kiln/jit/gpu/legality.h>

#include <kiln/jit/emit/lowered_dtypes.h>

#include <algorithm>

namespace kiln::gpu {
namespace {

using ir::Opcode;

// The limits are far above what runs well: a thread has 255 registers.

// Planning layouts visits the body of a loop twice, and so 2^16 times at this depth.
constexpr int deepest_nest = 16;
// The most elements of one tile in a thread.
constexpr std::int64_t most_tile_registers = 512;
// The most operations on elements in the code of a thread, which take LLVM and ptxas some ten seconds.
constexpr std::int64_t most_operations = 50'000;

void check_region(const ir::Region& region, const std::string& arch, int depth) {
  for (const auto& op : region.ops) {
    emit::check_dtype(*op, arch);
    if (!op->regions.empty() && depth == deepest_nest)
      throw UserError(op->loc, "loops and branches are nested more than " + std::to_string(deepest_nest) +
                                   " deep, which cannot be compiled for " + arch +
                                   "; combine some of the loops into one");
    for (const auto& inner : op->regions)
      check_region(*inner, arch, depth + 1);
  }
}

// How often a sorting network compares each element.
std::int64_t steps_of_sort(const ir::Op& sort) {
  const ir::Type& type = sort.operand(0)->type;
  const std::int64_t rounds = shape_bits(type)[static_cast<std::size_t>(sort.integer("axis"))];
  return rounds * (rounds + 1) / 2;
}

std::string threads_text(const LayoutPlan& plan) {
  return std::to_string(32 * plan.warps) + " threads (num_warps = " + std::to_string(plan.warps) + ")";
}

} // namespace

void check_legal(const ir::Kernel& kernel, const std::string& arch) { check_region(kernel.body, arch, 0); }

void check_sizes(const ir::Kernel& kernel, const LayoutPlan& plan) {
  std::int64_t operations = 0, largest = 0;
  const ir::Value* tile = nullptr;
  SourceLocation where;
  ir::walk(kernel.body, [&](const ir::Op& op) {
    std::int64_t here = 1;
    auto count = [&](const ir::Value* v) {
      const LinearLayout* layout = plan.find(v);
      const std::int64_t registers = layout ? std::int64_t{1} << layout->in_bits(in_register) : 0;
      here = std::max(here, registers);
      if (registers <= largest) return;
      largest = registers;
      tile = v;
      where = op.loc;
    };
    for (const ir::Value* v : op.operands)
      count(v);
    for (const auto& v : op.results)
      count(v.get());
    // A reduction, a scan, a product or a 64-bit division takes some ten operations on each element.
    const bool long_one = op.is(Opcode::Reduce) || op.is(Opcode::Scan) || op.is(Opcode::Div) ||
                          op.is(Opcode::Rem) || op.is(Opcode::Pow) || op.is(Opcode::Dot);
    if (op.is(Opcode::Sort))
      operations += 8 * steps_of_sort(op) * here;
    else
      operations += long_one ? 10 * here : here;
  });
  if (!tile) return;
  const std::string advice = "; choose smaller tiles or more warps";
  if (largest > most_tile_registers)
    throw UserError(where, "kernel " + kernel.name + ": each of " + threads_text(plan) + " would hold " +
                               std::to_string(largest) + " elements of a " + tile->type.to_string() +
                               ", and the limit is " + std::to_string(most_tile_registers) + advice);
  if (operations > most_operations)
    throw UserError(where, "kernel " + kernel.name + ": the code of each of " + threads_text(plan) +
                               " would have " + std::to_string(operations) +
                               " operations on elements, and the limit is " +
                               std::to_string(most_operations) + "; its largest tile is a " +
                               tile->type.to_string() + advice);
}

} // namespace kiln::gpu
