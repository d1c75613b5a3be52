// Draws the computations of random kernels: constants, elementwise operations, shapes and dot.
#include <dsl/random_kernel_generator.h>

#include <string>

namespace kiln::test {

using namespace kiln::ir;

Value* KernelGenerator::constant(DType t) {
  if (is_float(t)) {
    static constexpr double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.0, 0.125, 100.0};
    return build_.constant(t, one_of(values));
  }
  if (t == DType::Bool) return build_.constant(t, between(0, 1));
  return build_.constant(t, between(is_signed(t) ? -20 : 0, 100));
}

Value* KernelGenerator::index() {
  Value* v = chance(60) ? find([](const Type& t) { return t == Type::scalar(DType::I64); }) : nullptr;
  if (v) return v;
  return chance(10) ? build_.index(std::int64_t{1} << between(30, 60)) : build_.index(between(-3, 20));
}

Value* KernelGenerator::make(const Type& type) {
  const Shape& shape = type.shape;
  for (Value* view : inputs_)
    if (view->type.dtype == type.dtype && view->type.view_rank >= type.rank() && chance(50)) {
      std::vector<Value*> operands = {view};
      for (Value* offset : offsets_in(view))
        operands.push_back(offset);
      Op* op = build_.create(Opcode::ViewLoad, operands, {type});
      op->set("axes", tile_axes(view, shape));
      return op->result();
    }
  Value* same_shape =
      chance(70) ? find([&](const Type& t) { return t.shape == shape && t.dtype != type.dtype; }) : nullptr;
  if (same_shape) return build_.cast(same_shape, type.dtype);
  if (shape.size() == 1 && chance(50)) {
    Op* range = build_.create(Opcode::Arange, {}, {Type::tile(chance(50) ? DType::I32 : DType::I64, shape)});
    range->set("start", between(-5, 5));
    return build_.cast(range->result(), type.dtype);
  }
  return build_.splat(constant(type.dtype), shape);
}

// Removes the sign of zeros in exact kernels, because min and max do not specify it.
Value* KernelGenerator::without_zero_sign(Value* v) {
  if (!options_.exact || !is_float(v->type.dtype)) return v;
  return build_.binary(Opcode::Add, v, build_.splat(build_.constant(v->type.dtype, 0.0), v->type.shape));
}

void KernelGenerator::unary() {
  Value* x = any_value();
  DType t = x->type.dtype;
  static constexpr Opcode for_bool[] = {Opcode::Not};
  static constexpr Opcode for_int[] = {Opcode::Neg, Opcode::Not, Opcode::Abs, Opcode::PopCount};
  static constexpr Opcode exact[] = {Opcode::Neg,   Opcode::Abs,   Opcode::Sqrt,  Opcode::Floor, Opcode::Ceil,
                                     Opcode::Trunc, Opcode::Round, Opcode::IsNan, Opcode::IsInf};
  static constexpr Opcode inexact[] = {
      Opcode::Exp, Opcode::Exp2, Opcode::Expm1, Opcode::Log, Opcode::Log2,    Opcode::Log1p, Opcode::Sin,
      Opcode::Cos, Opcode::Tan,  Opcode::Tanh,  Opcode::Erf, Opcode::Sigmoid, Opcode::Rsqrt, Opcode::Gelu};
  Opcode code = t == DType::Bool               ? one_of(for_bool)
                : !is_float(t)                 ? one_of(for_int)
                : options_.exact || chance(50) ? one_of(exact)
                                               : one_of(inexact);
  add(build_.unary(code, x));
}

void KernelGenerator::binary() {
  Value* a = any_value();
  DType t = a->type.dtype;
  static constexpr Opcode compare[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt,
                                       Opcode::Le, Opcode::Gt, Opcode::Ge};
  static constexpr Opcode for_bool[] = {Opcode::And, Opcode::Or, Opcode::Xor};
  static constexpr Opcode for_int[] = {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::MulHi, Opcode::Div,
                                       Opcode::Rem, Opcode::Min, Opcode::Max, Opcode::And,   Opcode::Or,
                                       Opcode::Xor, Opcode::Shl, Opcode::Shr};
  static constexpr Opcode exact[] = {Opcode::Add, Opcode::Sub, Opcode::Mul,    Opcode::Div,
                                     Opcode::Min, Opcode::Max, Opcode::MinNan, Opcode::MaxNan};
  static constexpr Opcode inexact[] = {Opcode::Pow, Opcode::Atan2, Opcode::Rem};
  Opcode code = chance(15)                     ? one_of(compare)
                : t == DType::Bool             ? one_of(for_bool)
                : !is_float(t)                 ? one_of(for_int)
                : options_.exact || chance(80) ? one_of(exact)
                                               : one_of(inexact);
  Value* r = build_.binary(code, a, value_of(a->type));
  const bool chooses =
      code == Opcode::Min || code == Opcode::Max || code == Opcode::MinNan || code == Opcode::MaxNan;
  add(chooses ? without_zero_sign(r) : r);
}

void KernelGenerator::ternary() {
  Value* a = any_value();
  if (is_float(a->type.dtype) && chance(40)) {
    add(build_.create(Opcode::Fma, {a, value_of(a->type), value_of(a->type)}, {a->type})->result());
  } else {
    Value* condition = value_of(a->type.with_dtype(DType::Bool));
    add(build_.select(condition, a, value_of(a->type)));
  }
}

void KernelGenerator::convert() {
  Value* x = any_value();
  DType to = any_dtype();
  // A bitcast must not depend on the bits of a NaN, which are unspecified, and a bool only has two bit
  // patterns.
  bool bits = size_of(to) == size_of(x->type.dtype) && to != DType::Bool && x->type.dtype != DType::Bool &&
              to != x->type.dtype && !(options_.exact && is_float(x->type.dtype));
  if (bits && chance(50))
    add(build_.create(Opcode::Bitcast, {x}, {x->type.with_dtype(to)})->result());
  else
    add(build_.cast(x, to));
}

void KernelGenerator::shape() {
  Value* x = any_tile();
  Shape s = x->type.shape;
  auto axis = between(0, x->type.rank() - 1);
  auto make = [&](Opcode code, const Shape& to) {
    return build_.create(code, {x}, {x->type.with_shape(to)});
  };
  switch (between(0, 7)) {
  case 0: {
    Shape to = any_shape();
    Value* scalar = find([](const Type& t) { return t.is_scalar(); });
    if (scalar && !to.empty()) add(build_.splat(scalar, to));
    break;
  }
  case 1: {
    if (s.size() >= 4) break;
    auto at = between(0, x->type.rank());
    s.insert(s.begin() + at, Dim(1));
    Op* op = make(Opcode::ExpandDims, s);
    op->set("axis", at);
    add(op->result());
    Shape wide = s;
    wide[static_cast<std::size_t>(at)] = one_of(dims_);
    if (wide != s && fits(wide)) add(build_.broadcast(op->result(), wide));
    break;
  }
  case 2: {
    if (!s[static_cast<std::size_t>(axis)].is_one()) break;
    s.erase(s.begin() + axis);
    Op* op = make(Opcode::Squeeze, s);
    op->set("axis", axis);
    add(op->result());
    break;
  }
  case 3: {
    std::vector<std::int64_t> order;
    for (int i = 0; i < x->type.rank(); ++i)
      order.push_back(i);
    shuffle(order);
    Shape to;
    for (auto i : order)
      to.push_back(s[static_cast<std::size_t>(i)]);
    Op* op = make(Opcode::Permute, to);
    op->set("order", order);
    add(op->result());
    break;
  }
  case 4: {
    const Dim extent = s[static_cast<std::size_t>(axis)];
    s.erase(s.begin() + axis);
    Op* op = make(Opcode::Extract, s);
    op->set("axis", axis);
    const Dim twice = dims_[0] * 2;
    op->set("index", between(0, extent.is_constant() ? extent.value() - 1 : extent == twice ? 1 : 0));
    add(op->result());
    break;
  }
  case 5: {
    Dim all(1);
    for (const Dim& d : s)
      all = all * d;
    add(make(Opcode::Reshape, {all})->result());
    break;
  }
  case 6: { // splits an axis into pairs
    if (s.size() >= 4 || s[static_cast<std::size_t>(axis)] != dims_[0] * 2) break;
    s[static_cast<std::size_t>(axis)] = dims_[0];
    s.insert(s.begin() + axis + 1, Dim(2));
    add(make(Opcode::Reshape, s)->result());
    break;
  }
  default: {
    if (s.size() < 2) break;
    const auto first = static_cast<std::size_t>(between(0, x->type.rank() - 2));
    s[first] = s[first] * s[first + 1];
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    add(make(Opcode::Reshape, s)->result());
  }
  }
}

Value* KernelGenerator::reshaped(Value* v, const Shape& shape) {
  if (v->type.shape == shape) return v;
  Dim have(1), want(1);
  for (const Dim& d : v->type.shape)
    have = have * d;
  for (const Dim& d : shape)
    want = want * d;
  if (v->type.is_tile() && !shape.empty() && have == want)
    return build_.create(Opcode::Reshape, {v}, {v->type.with_shape(shape)})->result();
  while (v->type.is_tile())
    v = reduce(v, v->type.rank() - 1, false)->result();
  return build_.splat(v, shape);
}

void KernelGenerator::dot() {
  static constexpr DType integers[] = {DType::I8, DType::U8};
  static constexpr DType floats[] = {DType::F16, DType::BF16,   DType::F32,
                                     DType::F64, DType::F8E4M3, DType::F8E5M2};
  DType t = options_.exact || chance(20) ? one_of(integers) : options_.narrow ? one_of(floats) : DType::F32;
  DType sum = t == DType::F64 ? DType::F64 : is_float(t) ? DType::F32 : DType::I32;
  Dim m = one_of(dims_), n = one_of(dims_), k = one_of(dims_);
  Shape batch;
  if (chance(20)) batch.push_back(Dim(2));
  auto with = [&](const Dim& rows, const Dim& columns) {
    Shape s = batch;
    s.push_back(rows);
    s.push_back(columns);
    return s;
  };
  if (!fits(with(m, n)) || !fits(with(m, k)) || !fits(with(k, n))) return;
  std::vector<Value*> operands = {value_of(Type::tile(t, with(m, k))), value_of(Type::tile(t, with(k, n)))};
  if (chance(50)) operands.push_back(value_of(Type::tile(sum, with(m, n))));
  Op* op = build_.create(Opcode::Dot, operands, {Type::tile(sum, with(m, n))});
  if (t == DType::F32 && chance(30)) op->set("precision", std::string("ieee"));
  if (chance(30)) op->set("sum_order", std::string("fixed"));
  add(op->result());
}

Value* KernelGenerator::combine(Value* a, Value* b) {
  Opcode code = a->type.dtype == DType::Bool ? Opcode::Xor : Opcode::Add;
  return build_.binary(code, a, b);
}

} // namespace kiln::test
