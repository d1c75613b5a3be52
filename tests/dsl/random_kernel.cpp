// Draws operations one by one over a pool of the values that are visible where the next one goes.
#include <dsl/random_kernel.h>

#include <kiln/dsl/symbol.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>

namespace kiln::test {

using namespace kiln::ir;

namespace {

class Generator {
public:
  Generator(std::uint64_t seed, const RandomKernelOptions& options)
      : options_(options), random_(seed), kernel_(std::make_unique<Kernel>("random")),
        build_(&kernel_->body) {
    result_.seed = seed;
  }
  RandomKernel run();

private:
  // --- chance
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List> const auto& one_of(const List& list) {
    return *(std::begin(list) + between(0, static_cast<std::int64_t>(std::size(list)) - 1));
  }
  // std::shuffle differs between standard libraries.
  void shuffle(std::vector<std::int64_t>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  DType any_dtype() {
    static constexpr DType wide[] = {DType::Bool, DType::I32, DType::I64, DType::U32,
                                     DType::U64,  DType::F32, DType::F64};
    if (options_.narrow && chance(50)) return static_cast<DType>(between(0, dtype_count - 1));
    return one_of(wide);
  }
  DType number_dtype() {
    DType t = any_dtype();
    return t == DType::Bool ? DType::F32 : t;
  }

  // --- shapes
  void choose_dimensions();
  std::int64_t elements(const Shape& shape) const {
    std::int64_t n = 1;
    for (const Dim& d : shape)
      n *= d.bind(result_.config);
    return n;
  }
  bool fits(const Shape& shape) const {
    return static_cast<int>(shape.size()) <= 4 && elements(shape) <= (options_.large ? 16384 : 2048);
  }
  Shape any_shape() {
    if (chance(25)) return {};
    if (chance(40)) return tile_;
    Shape shape;
    for (std::int64_t rank = between(1, 3); rank > 0; --rank) {
      shape.push_back(one_of(dims_));
      if (!fits(shape)) shape.pop_back();
    }
    return shape;
  }

  // --- values
  Value* add(Value* v) {
    pool_.push_back(v);
    return v;
  }
  template <class F> Value* find(F&& fits) {
    // Recent values are likelier, so that chains grow.
    std::vector<Value*> found;
    for (Value* v : pool_)
      if (!v->type.pointer && fits(v->type)) found.push_back(v);
    if (found.empty()) return nullptr;
    auto n = static_cast<std::int64_t>(found.size());
    return found[static_cast<std::size_t>(std::max(between(0, n - 1), between(0, n - 1)))];
  }
  Value* any_value() {
    Value* v = find([](const Type&) { return true; });
    if (v) return v;
    DType t = any_dtype();
    return make(Type::tile(t, any_shape()));
  }
  Value* any_tile() {
    Value* v = find([](const Type& t) { return t.is_tile(); });
    return v ? v : make(Type::tile(any_dtype(), tile_));
  }
  Value* constant(DType t);
  Value* index();
  Value* make(const Type& type);      // something new of that type
  Value* value_of(const Type& type) { // from the pool, or new
    Value* v = chance(75) ? find([&](const Type& t) { return t == type; }) : nullptr;
    return v ? v : add(make(type));
  }
  Value* reshaped(Value* v, const Shape& shape); // whatever it takes

  // --- steps; each adds what it computes to the pool
  void step();
  void unary();
  void binary();
  void ternary();
  void convert();
  void shape();
  void load();
  void pointer_load();
  void raw_load();
  void gather();
  void facts();
  void reduce_or_scan();
  void best_of_two();
  void dot();
  void loop();
  void while_loop();
  void branch();
  void atomic();
  void print();
  void store(Value* v, Value* output);
  Value* combine(Value* a, Value* b);
  Opcode reduction_of(DType t);
  Value* without_zero_sign(Value* v);
  Op* reduce(Value* v, std::int64_t axis, bool scan);
  void few_steps() {
    for (std::int64_t n = between(1, 4); n > 0; --n)
      step();
  }
  std::vector<Value*> offsets_in(Value* view);
  std::vector<std::int64_t> tile_axes(Value* view, const Shape& shape);

  RandomKernelOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<Kernel> kernel_;
  Builder build_;
  RandomKernel result_;
  std::vector<Dim> dims_;
  Shape tile_; // of each output
  std::vector<Value*> inputs_, outputs_, offsets_, pool_;
  Value* counts_ = nullptr;
  std::string_view atomic_kind_;
  int depth_ = 0;
};

void Generator::choose_dimensions() {
  static constexpr std::int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32};
  static constexpr std::int64_t large_sizes[] = {1, 8, 33, 64, 65, 100, 128, 200, 256};
  for (const char* name : {"BM", "BN", "BK"}) {
    result_.config.set(intern(name), options_.large ? one_of(large_sizes) : one_of(sizes));
    dims_.push_back(Dim::symbol(intern(name)));
  }
  dims_.push_back(Dim(one_of(sizes)));
  dims_.push_back(Dim(1));
  dims_.push_back(dims_[0] * 2);
}

Value* Generator::constant(DType t) {
  if (is_float(t)) {
    static constexpr double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.0, 0.125, 100.0};
    return build_.constant(t, one_of(values));
  }
  if (t == DType::Bool) return build_.constant(t, between(0, 1));
  return build_.constant(t, between(is_signed(t) ? -20 : 0, 100));
}

Value* Generator::index() {
  Value* v = chance(60) ? find([](const Type& t) { return t == Type::scalar(DType::I64); }) : nullptr;
  if (v) return v;
  return chance(10) ? build_.index(std::int64_t{1} << between(30, 60)) : build_.index(between(-3, 20));
}

std::vector<Value*> Generator::offsets_in(Value* view) {
  std::vector<Value*> offsets;
  for (int i = 0; i < view->type.view_rank; ++i) {
    bool own = view->type.view_rank == static_cast<int>(offsets_.size()) && chance(60);
    offsets.push_back(own ? offsets_[static_cast<std::size_t>(i)] : index());
  }
  return offsets;
}

std::vector<std::int64_t> Generator::tile_axes(Value* view, const Shape& shape) {
  std::vector<std::int64_t> axes;
  for (int i = 0; i < view->type.view_rank; ++i)
    axes.push_back(i);
  if (!chance(60)) shuffle(axes);
  axes.resize(shape.size());
  return axes;
}

Value* Generator::make(const Type& type) {
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

// In exact kernels the sign of a zero that min and max leave open must not spread.
Value* Generator::without_zero_sign(Value* v) {
  if (!options_.exact || !is_float(v->type.dtype)) return v;
  return build_.binary(Opcode::Add, v, build_.splat(build_.constant(v->type.dtype, 0.0), v->type.shape));
}

void Generator::unary() {
  Value* x = any_value();
  DType t = x->type.dtype;
  static constexpr Opcode for_bool[] = {Opcode::Not};
  static constexpr Opcode for_int[] = {Opcode::Neg, Opcode::Not, Opcode::Abs, Opcode::PopCount};
  static constexpr Opcode exact[] = {Opcode::Neg,   Opcode::Abs,   Opcode::Sqrt,  Opcode::Floor, Opcode::Ceil,
                                     Opcode::Trunc, Opcode::Round, Opcode::IsNan, Opcode::IsInf};
  static constexpr Opcode inexact[] = {
      Opcode::Exp, Opcode::Exp2, Opcode::Expm1, Opcode::Log, Opcode::Log2,    Opcode::Log1p, Opcode::Sin,
      Opcode::Cos, Opcode::Tan,  Opcode::Tanh,  Opcode::Erf, Opcode::Sigmoid, Opcode::Rsqrt};
  Opcode code = t == DType::Bool               ? one_of(for_bool)
                : !is_float(t)                 ? one_of(for_int)
                : options_.exact || chance(50) ? one_of(exact)
                                               : one_of(inexact);
  add(build_.unary(code, x));
}

void Generator::binary() {
  Value* a = any_value();
  DType t = a->type.dtype;
  static constexpr Opcode compare[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt,
                                       Opcode::Le, Opcode::Gt, Opcode::Ge};
  static constexpr Opcode for_bool[] = {Opcode::And, Opcode::Or, Opcode::Xor};
  static constexpr Opcode for_int[] = {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::MulHi, Opcode::Div,
                                       Opcode::Rem, Opcode::Min, Opcode::Max, Opcode::And,   Opcode::Or,
                                       Opcode::Xor, Opcode::Shl, Opcode::Shr};
  static constexpr Opcode exact[] = {Opcode::Add, Opcode::Sub, Opcode::Mul,
                                     Opcode::Div, Opcode::Min, Opcode::Max};
  static constexpr Opcode inexact[] = {Opcode::Pow, Opcode::Atan2, Opcode::Rem};
  Opcode code = chance(15)                     ? one_of(compare)
                : t == DType::Bool             ? one_of(for_bool)
                : !is_float(t)                 ? one_of(for_int)
                : options_.exact || chance(80) ? one_of(exact)
                                               : one_of(inexact);
  Value* r = build_.binary(code, a, value_of(a->type));
  add(code == Opcode::Min || code == Opcode::Max ? without_zero_sign(r) : r);
}

void Generator::ternary() {
  Value* a = any_value();
  if (is_float(a->type.dtype) && chance(40)) {
    add(build_.create(Opcode::Fma, {a, value_of(a->type), value_of(a->type)}, {a->type})->result());
  } else {
    Value* condition = value_of(a->type.with_dtype(DType::Bool));
    add(build_.select(condition, a, value_of(a->type)));
  }
}

void Generator::convert() {
  Value* x = any_value();
  DType to = any_dtype();
  // The bits of a NaN are nobody's business, and bool has but two patterns.
  bool bits = size_of(to) == size_of(x->type.dtype) && to != DType::Bool && x->type.dtype != DType::Bool &&
              to != x->type.dtype && !(options_.exact && is_float(x->type.dtype));
  if (bits && chance(50))
    add(build_.create(Opcode::Bitcast, {x}, {x->type.with_dtype(to)})->result());
  else
    add(build_.cast(x, to));
}

void Generator::shape() {
  Value* x = any_tile();
  Shape s = x->type.shape;
  auto axis = between(0, x->type.rank() - 1);
  auto make = [&](Opcode code, const Shape& to) {
    return build_.create(code, {x}, {x->type.with_shape(to)});
  };
  switch (between(0, 5)) {
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
    Dim all(1);
    for (const Dim& d : s)
      all = all * d;
    add(make(Opcode::Reshape, {all})->result());
    break;
  }
  default: {
    if (s.size() < 2) break;
    Shape to(s.begin() + 1, s.end());
    to[0] = s[0] * s[1];
    add(make(Opcode::Reshape, to)->result());
  }
  }
}

Value* Generator::reshaped(Value* v, const Shape& shape) {
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

void Generator::load() {
  Value* view = one_of(inputs_);
  Shape shape = any_shape();
  if (static_cast<int>(shape.size()) > view->type.view_rank)
    shape.resize(static_cast<std::size_t>(view->type.view_rank), Dim(1));
  Type type = Type::tile(view->type.dtype, shape);
  std::vector<Value*> operands = {view};
  for (Value* offset : offsets_in(view))
    operands.push_back(offset);
  bool mask = chance(30), other = chance(30);
  if (mask)
    operands.push_back(value_of(chance(80) ? type.with_dtype(DType::Bool) : Type::scalar(DType::Bool)));
  if (other) operands.push_back(value_of(chance(50) ? type : Type::scalar(type.dtype)));
  Op* op = build_.create(Opcode::ViewLoad, operands, {type});
  op->set("axes", tile_axes(view, shape));
  if (mask) op->set("has_mask", std::int64_t{1});
  if (other) op->set("has_other", std::int64_t{1});
  add(op->result());
}

// Through pointers, masked by the view's bounds.
void Generator::pointer_load() {
  Value* view = one_of(inputs_);
  Shape shape = any_shape();
  if (static_cast<int>(shape.size()) > view->type.view_rank)
    shape.resize(static_cast<std::size_t>(view->type.view_rank), Dim(1));
  std::vector<Value*> operands = {view};
  for (Value* offset : offsets_in(view))
    operands.push_back(offset);
  auto axes = tile_axes(view, shape);
  Op* pointers = build_.create(Opcode::ViewPtrs, operands, {Type::pointer_to(view->type.dtype, true, shape)});
  Op* inside = build_.create(Opcode::ViewMask, operands, {Type::tile(DType::Bool, shape)});
  pointers->set("axes", axes);
  inside->set("axes", axes);
  Type type = Type::tile(view->type.dtype, shape);
  operands = {pointers->result(), inside->result()};
  bool other = chance(50);
  if (other) operands.push_back(value_of(type));
  Op* op = build_.create(Opcode::Load, operands, {type});
  op->set("has_mask", std::int64_t{1});
  if (other) op->set("has_other", std::int64_t{1});
  add(op->result());
}

// Through arithmetic on a view's first address and strides, as raw kernels do.
void Generator::raw_load() {
  Value* view = one_of(inputs_);
  Shape shape = {one_of(dims_)};
  Type indices = Type::tile(DType::I64, shape);
  Op* data = build_.create(Opcode::ViewData, {view}, {Type::pointer_to(view->type.dtype, true)});
  Value* pointers = build_.splat(data->result(), shape);
  Value* inside = build_.splat(build_.constant(DType::Bool, std::int64_t{1}), shape);
  for (std::int64_t axis = 0; axis < view->type.view_rank; ++axis) {
    Value* i = value_of(indices);
    auto fact = [&](Opcode code) {
      Op* op = build_.create(code, {view}, {Type::scalar(DType::I64)});
      op->set("axis", axis);
      return build_.splat(op->result(), shape);
    };
    inside = build_.binary(Opcode::And, inside, build_.binary(Opcode::Lt, i, fact(Opcode::ViewExtent)));
    inside = build_.binary(Opcode::And, inside,
                           build_.binary(Opcode::Ge, i, build_.splat(build_.index(0), shape)));
    Value* offset = build_.binary(Opcode::Mul, i, fact(Opcode::ViewStride));
    pointers = build_.create(Opcode::PtrAdd, {pointers, offset}, {pointers->type})->result();
  }
  Op* op = build_.create(Opcode::Load, {pointers, inside}, {Type::tile(view->type.dtype, shape)});
  op->set("has_mask", std::int64_t{1});
  add(op->result());
}

void Generator::facts() {
  Opcode code = chance(50) ? Opcode::ProgramId : Opcode::NumPrograms;
  Op* op = build_.create(code, {}, {Type::scalar(DType::I64)});
  op->set("axis", between(0, static_cast<std::int64_t>(tile_.size()) - 1));
  add(op->result());
}

void Generator::gather() {
  Value* view = one_of(inputs_);
  Shape shape = any_tile()->type.shape;
  std::vector<Value*> operands = {view};
  for (int i = 0; i < view->type.view_rank; ++i)
    operands.push_back(value_of(Type::tile(DType::I64, shape)));
  add(build_.create(Opcode::ViewGather, operands, {Type::tile(view->type.dtype, shape)})->result());
}

Opcode Generator::reduction_of(DType t) {
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

Op* Generator::reduce(Value* v, std::int64_t axis, bool scan) {
  Shape shape = v->type.shape;
  if (!scan) shape.erase(shape.begin() + axis);
  Opcode code = reduction_of(v->type.dtype);
  // Without zeros of both signs the tree of a min or max cannot be seen.
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

void Generator::reduce_or_scan() {
  Value* v = any_tile();
  std::int64_t axis = between(0, v->type.rank() - 1);
  add(reduce(v, axis, chance(35))->result());
}

// Like argmax: two tiles, the smaller index wins among equals, and NaN loses.
void Generator::best_of_two() {
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
  if (is_float(x.dtype)) { // NaN loses against numbers, and equals NaN
    Value *an = in.unary(Opcode::IsNan, ax), *bn = in.unary(Opcode::IsNan, bx);
    better = in.binary(Opcode::Or, better, in.binary(Opcode::And, bn, in.unary(Opcode::Not, an)));
    equal = in.binary(Opcode::Or, equal, in.binary(Opcode::And, an, bn));
  }
  Value* take = in.binary(Opcode::Or, better, in.binary(Opcode::And, equal, first));
  in.yield({in.select(take, ax, bx), in.select(take, ai, bi)});
  add(op->result(0));
  add(op->result(1));
}

void Generator::dot() {
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
  add(op->result());
}

Value* Generator::combine(Value* a, Value* b) {
  Opcode code = a->type.dtype == DType::Bool ? Opcode::Xor : Opcode::Add;
  return build_.binary(code, a, b);
}

void Generator::loop() {
  Value* lower = build_.index(between(-2, 2));
  Value* upper = chance(70) ? build_.index(between(-1, 6)) : nullptr;
  Value* step = build_.index(between(1, 3));
  if (!upper) { // over a view, tile by tile
    Value* view = one_of(inputs_);
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

void Generator::while_loop() {
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

void Generator::branch() {
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

void Generator::atomic() {
  Shape shape = {one_of(dims_)};
  Value* offset = index();
  Op* pointers = build_.create(Opcode::ViewPtrs, {counts_, offset},
                               {Type::pointer_to(counts_->type.dtype, false, shape)});
  Op* inside = build_.create(Opcode::ViewMask, {counts_, offset}, {Type::tile(DType::Bool, shape)});
  pointers->set("axes", std::vector<std::int64_t>{0});
  inside->set("axes", std::vector<std::int64_t>{0});
  Type type = Type::tile(counts_->type.dtype, shape);
  Op* op = build_.create(Opcode::AtomicRmw, {pointers->result(), value_of(type), inside->result()}, {type});
  op->set("has_mask", std::int64_t{1});
  op->set("kind", std::string(atomic_kind_));
  if (chance(50)) op->set("order", std::string("relaxed"));
}

void Generator::print() {
  Op* op = nullptr;
  if (chance(50))
    op = build_.create(Opcode::DevicePrint, {any_value(), any_value()}, {});
  else
    op = build_.create(Opcode::DeviceAssert, {value_of(Type::tile(DType::Bool, any_shape()))}, {});
  if (chance(70)) op->set("message", "seen \"" + std::to_string(between(0, 99)) + "\"\n");
}

// A program writes its own tile only: as a tile, element by element, or through pointers.
void Generator::store(Value* v, Value* output) {
  v = build_.cast(reshaped(v, tile_), output->type.dtype);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < tile_.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  bool mask = chance(20);
  Op* op = nullptr;
  if (chance(15)) {
    std::vector<Value*> operands = {output};
    operands.insert(operands.end(), offsets_.begin(), offsets_.end());
    Op* pointers =
        build_.create(Opcode::ViewPtrs, operands, {Type::pointer_to(output->type.dtype, false, tile_)});
    Op* inside = build_.create(Opcode::ViewMask, operands, {Type::tile(DType::Bool, tile_)});
    pointers->set("axes", axes);
    inside->set("axes", axes);
    Value* written = inside->result();
    if (mask) written = build_.binary(Opcode::And, written, value_of(written->type));
    op = build_.create(Opcode::Store, {pointers->result(), v, written}, {});
    mask = true;
  } else {
    bool scatter = chance(15);
    std::vector<Value*> operands = {output, v};
    for (std::size_t i = 0; i < tile_.size(); ++i) {
      if (!scatter) {
        operands.push_back(offsets_[i]);
        continue;
      }
      Op* range = build_.create(Opcode::Arange, {}, {Type::tile(DType::I64, {tile_[i]})});
      range->set("start", std::int64_t{0});
      Value* along = range->result();
      for (std::size_t axis = 0; axis < tile_.size(); ++axis) {
        if (axis == i) continue;
        Shape wider = along->type.shape;
        wider.insert(axis < i ? wider.begin() : wider.end(), Dim(1));
        Op* expanded = build_.create(Opcode::ExpandDims, {along}, {along->type.with_shape(wider)});
        expanded->set("axis", axis < i ? std::int64_t{0} : along->type.rank());
        along = expanded->result();
      }
      along = build_.broadcast(along, tile_);
      Value* start = build_.splat(offsets_[i], tile_);
      operands.push_back(build_.binary(Opcode::Add, start, along));
    }
    if (mask) operands.push_back(value_of(Type::tile(DType::Bool, tile_)));
    op = build_.create(scatter ? Opcode::ViewScatter : Opcode::ViewStore, operands, {});
    if (!scatter) op->set("axes", axes);
  }
  if (mask) op->set("has_mask", std::int64_t{1});
}

void Generator::step() {
  struct Choice {
    int weight;
    void (Generator::*draw)();
  };
  bool nest = options_.control && depth_ < 2;
  const Choice choices[] = {
      {14, &Generator::unary},
      {26, &Generator::binary},
      {8, &Generator::ternary},
      {8, &Generator::convert},
      {14, &Generator::shape},
      {10, &Generator::load},
      {3, &Generator::pointer_load},
      {2, &Generator::raw_load},
      {3, &Generator::gather},
      {2, &Generator::facts},
      {8, &Generator::reduce_or_scan},
      {2, &Generator::best_of_two},
      {options_.dots ? 5 : 0, &Generator::dot},
      {nest ? 4 : 0, &Generator::loop},
      {nest ? 2 : 0, &Generator::while_loop},
      {nest ? 4 : 0, &Generator::branch},
      {options_.atomics ? 2 : 0, &Generator::atomic},
      {options_.prints ? 3 : 0, &Generator::print},
  };
  int total = 0;
  for (const Choice& c : choices)
    total += c.weight;
  std::int64_t at = between(0, total - 1);
  ++depth_;
  for (const Choice& c : choices) {
    at -= c.weight;
    if (at >= 0) continue;
    (this->*c.draw)();
    break;
  }
  --depth_;
}

RandomKernel Generator::run() {
  choose_dimensions();
  auto rank = between(1, 3);
  while (static_cast<std::int64_t>(tile_.size()) < rank) {
    tile_.push_back(one_of(dims_));
    if (!fits(tile_)) tile_.back() = Dim(1);
  }
  auto add_view = [&](const char* name, DType t, int view_rank, bool readonly) {
    Value* view = kernel_->body.add_arg(Type::view(t, view_rank, readonly), intern(name));
    std::vector<std::int64_t> extents;
    for (int i = 0; i < view_rank; ++i)
      extents.push_back(between(1, (options_.large ? 8 : 1) * (view_rank == 1   ? 60
                                                               : view_rank == 2 ? 24
                                                                                : 9)));
    result_.extents.push_back(extents);
    result_.written.push_back(!readonly);
    return view;
  };
  static constexpr const char* input_names[] = {"a", "b", "c"};
  for (std::int64_t i = 0, n = between(1, 3); i < n; ++i) {
    DType t = any_dtype();
    inputs_.push_back(add_view(input_names[i], t, static_cast<int>(between(1, 3)), true));
  }
  for (const char* name : {"s", "t"}) {
    if (chance(30)) continue;
    add(kernel_->body.add_arg(Type::scalar(any_dtype()), intern(name)));
    result_.extents.emplace_back();
    result_.written.push_back(false);
  }
  // All outputs have one shape: what is inside the first is inside each, and tiles of programs are disjoint.
  static constexpr const char* output_names[] = {"out", "out2"};
  int grid_param = static_cast<int>(kernel_->body.args.size());
  for (std::int64_t i = 0, n = between(1, 2); i < n; ++i) {
    outputs_.push_back(add_view(output_names[i], any_dtype(), static_cast<int>(rank), false));
    result_.extents.back() = result_.extents[static_cast<std::size_t>(grid_param)];
  }
  if (options_.atomics) {
    static constexpr DType dtypes[] = {DType::I32, DType::U32, DType::I64, DType::U64};
    static constexpr std::string_view kinds[] = {"add", "min", "max", "and", "or", "xor"};
    counts_ = add_view("counts", one_of(dtypes), 1, false);
    atomic_kind_ = one_of(kinds);
  }

  std::vector<Type> offset_types(tile_.size(), Type::scalar(DType::I64));
  Op* tile = build_.create(Opcode::ProgramTile, {outputs_[0]}, offset_types);
  tile->set("dims", tile_);
  for (std::size_t i = 0; i < tile_.size(); ++i) {
    kernel_->grid.push_back({grid_param, static_cast<int>(i), tile_[i]});
    offsets_.push_back(add(tile->result(static_cast<int>(i))));
  }
  if (options_.prints) {
    Op* op = build_.create(Opcode::Expects, {build_.constant(DType::Bool, std::int64_t{1})}, {});
    op->set("message", std::string("always"));
  }
  for (int i = 0; i < options_.steps; ++i)
    step();
  // Much of what was computed should reach memory, or passes remove it.
  for (Value* output : outputs_) {
    Value* sum = nullptr;
    for (int i = 0; i < 4; ++i) {
      Value* v = build_.cast(reshaped(any_value(), tile_), output->type.dtype);
      sum = sum ? combine(sum, v) : v;
    }
    store(sum, output);
  }
  if (chance(40)) { // what was stored is seen by later loads
    Value* output = one_of(outputs_);
    std::vector<Value*> operands = {output};
    operands.insert(operands.end(), offsets_.begin(), offsets_.end());
    Op* again = build_.create(Opcode::ViewLoad, operands, {Type::tile(output->type.dtype, tile_)});
    std::vector<std::int64_t> axes;
    for (std::int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
    again->set("axes", axes);
    add(again->result());
    few_steps();
    Value* sum = combine(again->result(), value_of(again->result()->type));
    store(sum, one_of(outputs_));
  }
  Config used; // a config names only what the kernel uses
  for (const char* name : kernel_->dimensions())
    used.set(name, *result_.config.get(name));
  result_.config = used;
  result_.kernel = std::move(kernel_);
  return std::move(result_);
}

} // namespace

RandomKernel random_kernel(std::uint64_t seed, const RandomKernelOptions& options) {
  return Generator(seed, options).run();
}

} // namespace kiln::test
