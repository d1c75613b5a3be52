// Lists the operations that can be lowered for some dtypes only, and checks an operation against the list.
#include <kiln/jit/emit/lowered_dtypes.h>

namespace kiln::emit {
namespace {

using ir::Opcode;

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
};
// Operations that are not here are lowered for every dtype.
constexpr Row table[] = {
    {Opcode::Exp, floats},         {Opcode::Exp2, floats},   {Opcode::Expm1, floats},
    {Opcode::Log, floats},         {Opcode::Log2, floats},   {Opcode::Log1p, floats},
    {Opcode::Sin, floats},         {Opcode::Cos, floats},    {Opcode::Tan, floats},
    {Opcode::Tanh, floats},        {Opcode::Erf, floats},    {Opcode::Sigmoid, floats},
    {Opcode::Gelu, floats},        {Opcode::Sqrt, floats},   {Opcode::Rsqrt, floats},
    {Opcode::Floor, floats},       {Opcode::Ceil, floats},   {Opcode::Trunc, floats},
    {Opcode::Round, floats},       {Opcode::IsNan, floats},  {Opcode::IsInf, floats},
    {Opcode::Pow, floats},         {Opcode::Atan2, floats},  {Opcode::Fma, floats},
    {Opcode::MinNan, floats},      {Opcode::MaxNan, floats}, {Opcode::PopCount, integers},
    {Opcode::MulHi, integers},     {Opcode::Shl, integers},  {Opcode::Shr, integers},
    {Opcode::Not, logical},        {Opcode::And, logical},   {Opcode::Or, logical},
    {Opcode::Xor, logical},        {Opcode::Arange, words},  {Opcode::Dot, floats | bytes},
    {Opcode::Histogram, integers},
};

std::string names_of(unsigned bits) {
  std::string text;
  for (int t = 0; t < dtype_count; ++t)
    if (bits & 1u << t) text += (text.empty() ? "" : ", ") + std::string(name(static_cast<DType>(t)));
  return text;
}

} // namespace

unsigned lowered_dtypes(Opcode code) {
  for (const Row& row : table)
    if (row.code == code) return row.dtypes;
  return every;
}

void check_dtype(const ir::Op& op, const std::string& target) {
  const ir::Value* v = op.num_operands() ? op.operand(0) : op.num_results() ? op.result() : nullptr;
  if (!v || v->type.pointer) return;
  const unsigned legal = lowered_dtypes(op.code);
  if (!(legal & 1u << static_cast<int>(v->type.dtype)))
    throw UserError(op.loc, target + " does not lower " + std::string(ir::name(op.code)) + " of " +
                                std::string(name(v->type.dtype)) + "; cast to one of " + names_of(legal));
}

} // namespace kiln::emit
