// The table of what GPUs lower, and the limits on what a thread holds.
#include <kiln/jit/gpu/legality.h>

#include <algorithm>

namespace kiln::gpu {
namespace {

using ir::Opcode;

// Limits, each far above what runs well: 255 registers is what a thread has.
constexpr int deepest_nest = 16;             // loops are planned twice on each level
constexpr std::int64_t most_registers = 512; // of one tile in a thread
constexpr std::int64_t most_operations =
    50'000; // on elements, in a thread's code: some ten seconds of LLVM and ptxas

template <class Wanted> constexpr unsigned dtypes(Wanted wanted) {
  unsigned bits = 0;
  for (int t = 0; t < dtype_count; ++t)
    if (wanted(static_cast<DType>(t))) bits |= 1u << t;
  return bits;
}
constexpr unsigned every = (1u << dtype_count) - 1;
constexpr unsigned floats = dtypes([](DType t) { return is_float(t); });
constexpr unsigned integers = dtypes([](DType t) { return is_integer(t); });
constexpr unsigned logical = integers | 1u << static_cast<int>(DType::Bool);
constexpr unsigned bytes = 1u << static_cast<int>(DType::I8) | 1u << static_cast<int>(DType::U8);
constexpr unsigned words = 1u << static_cast<int>(DType::I32) | 1u << static_cast<int>(DType::I64);

struct Row {
  Opcode code;
  unsigned dtypes;
  const char* only = nullptr; // architecture; null: all
};
// Operations that are not here are lowered for every dtype. No architecture lacks anything yet: whatever has
// no instruction of its own is computed in f32, or exchanged by compare-and-swap.
constexpr Row table[] = {
    {Opcode::Exp, floats},     {Opcode::Exp2, floats},  {Opcode::Expm1, floats},
    {Opcode::Log, floats},     {Opcode::Log2, floats},  {Opcode::Log1p, floats},
    {Opcode::Sin, floats},     {Opcode::Cos, floats},   {Opcode::Tan, floats},
    {Opcode::Tanh, floats},    {Opcode::Erf, floats},   {Opcode::Sigmoid, floats},
    {Opcode::Sqrt, floats},    {Opcode::Rsqrt, floats}, {Opcode::Floor, floats},
    {Opcode::Ceil, floats},    {Opcode::Trunc, floats}, {Opcode::Round, floats},
    {Opcode::IsNan, floats},   {Opcode::IsInf, floats}, {Opcode::Pow, floats},
    {Opcode::Atan2, floats},   {Opcode::Fma, floats},   {Opcode::PopCount, integers},
    {Opcode::MulHi, integers}, {Opcode::Shl, integers}, {Opcode::Shr, integers},
    {Opcode::Not, logical},    {Opcode::And, logical},  {Opcode::Or, logical},
    {Opcode::Xor, logical},    {Opcode::Arange, words}, {Opcode::Dot, floats | bytes},
};

std::string names_of(unsigned bits) {
  std::string text;
  for (int t = 0; t < dtype_count; ++t)
    if (bits & 1u << t) text += (text.empty() ? "" : ", ") + std::string(name(static_cast<DType>(t)));
  return text;
}

void check_region(const ir::Region& region, const std::string& arch, int depth) {
  for (const auto& op : region.ops) {
    const ir::Value* v = op->num_operands() ? op->operand(0) : op->num_results() ? op->result() : nullptr;
    if (v && !v->type.pointer) {
      const unsigned legal = lowered_dtypes(op->code, arch);
      if (!(legal & 1u << static_cast<int>(v->type.dtype)))
        throw UserError(op->loc, arch + " does not lower " + std::string(ir::name(op->code)) + " of " +
                                     std::string(name(v->type.dtype)) + "; cast to one of " +
                                     names_of(legal));
    }
    if (!op->regions.empty() && depth == deepest_nest)
      throw UserError(op->loc, "loops and branches are nested more than " + std::to_string(deepest_nest) +
                                   " deep, which " + arch + " does not lower; make one loop of several");
    for (const auto& inner : op->regions)
      check_region(*inner, arch, depth + 1);
  }
}

std::string threads_text(const LayoutPlan& plan) {
  return std::to_string(32 * plan.warps) + " threads (num_warps = " + std::to_string(plan.warps) + ")";
}

} // namespace

unsigned lowered_dtypes(Opcode code, const std::string& arch) {
  for (const Row& row : table)
    if (row.code == code && (!row.only || arch == row.only)) return row.dtypes;
  return every;
}

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
    // Sums over an axis and 64-bit quotients are some ten operations on each element.
    const bool long_one = op.is(Opcode::Reduce) || op.is(Opcode::Scan) || op.is(Opcode::Div) ||
                          op.is(Opcode::Rem) || op.is(Opcode::Pow) || op.is(Opcode::Dot);
    operations += long_one ? 10 * here : here;
  });
  if (!tile) return;
  const std::string advice = "; choose smaller tiles or more warps";
  if (largest > most_registers)
    throw UserError(where, "kernel " + kernel.name + ": each of " + threads_text(plan) + " would hold " +
                               std::to_string(largest) + " elements of a " + tile->type.to_string() +
                               ", and the limit is " + std::to_string(most_registers) + advice);
  if (operations > most_operations)
    throw UserError(where, "kernel " + kernel.name + ": the code of each of " + threads_text(plan) +
                               " would have " + std::to_string(operations) +
                               " operations on elements, and the limit is " +
                               std::to_string(most_operations) + "; its largest tile is a " +
                               tile->type.to_string() + advice);
}

} // namespace kiln::gpu
