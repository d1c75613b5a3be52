// Draws the operations of random kernels that have regions: reductions, scans, loops and branches.
#include <dsl/random_kernel_generator.h>

namespace kiln::test {

using namespace kiln::ir;

Opcode KernelGenerator::reduction_of(DType t) {
  static constexpr Opcode for_bool[] = {Opcode::And, Opcode::Or, Opcode::Xor};
  static constexpr Opcode for_int[] = {Opcode::Add, Opcode::Min, Opcode::Max, Opcode::And,
                                       Opcode::Or,  Opcode::Xor, Opcode::Mul};
  static constexpr Opcode exact[] = {Opcode::Min, Opcode::Max};
  static constexpr Opcode inexact[] = {Opcode::Add, Opcode::Min, Opcode::Max};
  return t == DType::Bool ? one_of(for_bool)
         : !is_float(t)   ? one_of(for_int)
         : options_.exact ? one_of(exact)
                          : one_of(inexact);
}

Op* KernelGenerator::reduce(Value* v, std::int64_t axis, bool scan) {
  Shape shape = v->type.shape;
  if (!scan) shape.erase(shape.begin() + axis);
  Opcode code = reduction_of(v->type.dtype);
  // With zeros of one sign only, the result of a min or max does not depend on the order of the reduction.
  Op* op = build_.create(scan ? Opcode::Scan : Opcode::Reduce, {without_zero_sign(v)},
                         {v->type.with_shape(shape)});
  op->set("axis", axis);
  if (scan && chance(30)) op->set("reverse", std::int64_t{1});
  Region* region = op->add_region();
  Type scalar = v->type.with_shape({});
  Value *a = region->add_arg(scalar), *b = region->add_arg(scalar);
  Builder inner(region);
  inner.yield({inner.binary(code, a, b)});
  return op;
}

void KernelGenerator::reduce_or_scan() {
  Value* v = any_tile();
  std::int64_t axis = between(0, v->type.rank() - 1);
  add(reduce(v, axis, chance(35))->result());
}

// A reduction of two tiles like argmax: it takes the smaller index among equal elements, and every number
// over a NaN.
void KernelGenerator::best_of_two() {
  Value* v = any_tile();
  if (v->type.dtype == DType::Bool) v = build_.cast(v, DType::I32);
  v = without_zero_sign(v);
  Value* tag = value_of(v->type.with_dtype(DType::I64));
  std::int64_t axis = between(0, v->type.rank() - 1);
  Shape shape = v->type.shape;
  shape.erase(shape.begin() + axis);
  Op* op = build_.create(Opcode::Reduce, {v, tag}, {v->type.with_shape(shape), tag->type.with_shape(shape)});
  op->set("axis", axis);
  Region* region = op->add_region();
  Type x = v->type.with_shape({}), i = Type::scalar(DType::I64);
  Value *ax = region->add_arg(x), *ai = region->add_arg(i), *bx = region->add_arg(x),
        *bi = region->add_arg(i);
  Builder in(region);
  Value* first = in.binary(Opcode::Lt, ai, bi);
  Value* better = in.binary(Opcode::Gt, ax, bx);
  Value* equal = in.binary(Opcode::Eq, ax, bx);
  if (is_float(x.dtype)) { // every number is better than NaN, and NaN equals NaN
    Value *an = in.unary(Opcode::IsNan, ax), *bn = in.unary(Opcode::IsNan, bx);
    better = in.binary(Opcode::Or, better, in.binary(Opcode::And, bn, in.unary(Opcode::Not, an)));
    equal = in.binary(Opcode::Or, equal, in.binary(Opcode::And, an, bn));
  }
  Value* take = in.binary(Opcode::Or, better, in.binary(Opcode::And, equal, first));
  in.yield({in.select(take, ax, bx), in.select(take, ai, bi)});
  add(op->result(0));
  add(op->result(1));
}

void KernelGenerator::loop() {
  Value* lower = build_.index(between(-2, 2));
  Value* upper = chance(70) ? build_.index(between(-1, 6)) : nullptr;
  Value* step = build_.index(between(1, 3));
  if (!upper) { // loops over the extent of a view in steps of a dimension
    Value* view = input();
    Op* extent = build_.create(Opcode::ViewExtent, {view}, {Type::scalar(DType::I64)});
    extent->set("axis", between(0, view->type.view_rank - 1));
    upper = extent->result();
    Op* size = build_.create(Opcode::DimSize, {}, {Type::scalar(DType::I64)});
    size->set("dim", one_of(dims_));
    step = size->result();
  }
  std::vector<Value*> operands = {lower, upper, step};
  std::vector<Type> types;
  for (std::int64_t n = between(0, 2); n > 0; --n) {
    operands.push_back(any_value());
    types.push_back(operands.back()->type);
  }
  Op* op = build_.create(Opcode::For, operands, types);
  Region *outer = build_.region(), *body = op->add_region();
  std::size_t visible = pool_.size();
  build_.set_region(body);
  add(body->add_arg(Type::scalar(DType::I64)));
  std::vector<Value*> carried, next;
  for (const Type& type : types)
    carried.push_back(add(body->add_arg(type)));
  few_steps();
  for (Value* v : carried)
    next.push_back(combine(v, value_of(v->type)));
  build_.yield(next);
  build_.set_region(outer);
  pool_.resize(visible);
  for (const auto& r : op->results)
    add(r.get());
}

void KernelGenerator::while_loop() {
  Value* carried = any_value();
  Type count = Type::scalar(DType::I32);
  std::vector<Type> types = {count, carried->type};
  Op* op = build_.create(Opcode::While, {build_.constant(DType::I32, std::int64_t{0}), carried}, types);
  Region *outer = build_.region(), *condition = op->add_region(), *body = op->add_region();
  std::size_t visible = pool_.size();
  for (Region* r : {condition, body}) {
    build_.set_region(r);
    Value *i = r->add_arg(count), *x = add(r->add_arg(carried->type));
    if (r == condition) {
      build_.yield({build_.binary(Opcode::Lt, i, build_.constant(DType::I32, between(0, 5)))});
    } else {
      few_steps();
      Value* next = combine(x, value_of(x->type));
      build_.yield({build_.binary(Opcode::Add, i, build_.constant(DType::I32, std::int64_t{1})), next});
    }
    pool_.resize(visible);
  }
  build_.set_region(outer);
  add(op->result(0));
  add(op->result(1));
}

void KernelGenerator::branch() {
  std::vector<Type> types;
  for (std::int64_t n = between(0, 2); n > 0; --n)
    types.push_back(any_value()->type);
  Op* op = build_.create(Opcode::If, {value_of(Type::scalar(DType::Bool))}, types);
  Region* outer = build_.region();
  std::size_t visible = pool_.size();
  for (int i = 0; i < 2; ++i) {
    build_.set_region(op->add_region());
    few_steps();
    if (chance(20)) {
      Value* output = one_of(outputs_);
      store(any_value(), output);
    }
    std::vector<Value*> yielded;
    for (const Type& type : types)
      yielded.push_back(value_of(type));
    build_.yield(yielded);
    pool_.resize(visible);
  }
  build_.set_region(outer);
  for (const auto& r : op->results)
    add(r.get());
}

} // namespace kiln::test
