// Implements operations and their attributes, the copying of kernels, the Builder, and the walks over tile
// IR.
#include <kiln/dsl/ir/ir.h>

#include <algorithm>

namespace kiln::ir {

Value* Region::add_arg(Type type, const char* name) {
  args.push_back(std::make_unique<Value>());
  Value* v = args.back().get();
  v->type = std::move(type);
  v->region = this;
  v->index = static_cast<int>(args.size()) - 1;
  v->name = name;
  return v;
}

Op* Region::terminator() const {
  return !ops.empty() && ops.back()->is(Opcode::Yield) ? ops.back().get() : nullptr;
}

Op::Op(Opcode c, std::vector<Value*> o, std::vector<Type> result_types, SourceLocation l)
    : code(c), loc(l), operands(std::move(o)) {
  for (Type& type : result_types) {
    auto v = std::make_unique<Value>();
    v->type = std::move(type);
    v->def = this;
    v->index = static_cast<int>(results.size());
    results.push_back(std::move(v));
  }
}

Op::~Op() = default;

Region* Op::add_region() {
  regions.push_back(std::make_unique<Region>());
  regions.back()->parent = this;
  return regions.back().get();
}

void Op::set(std::string_view name, Attribute value) {
  auto at = std::lower_bound(attributes_.begin(), attributes_.end(), name,
                             [](const auto& a, std::string_view n) { return a.first < n; });
  if (at != attributes_.end() && at->first == name)
    at->second = std::move(value);
  else
    attributes_.insert(at, {std::string(name), std::move(value)});
}

void Op::erase(std::string_view name) {
  std::erase_if(attributes_, [&](const auto& a) { return a.first == name; });
}

const Attribute* Op::find(std::string_view name) const {
  for (const auto& [key, value] : attributes_)
    if (key == name) return &value;
  return nullptr;
}

std::int64_t Op::integer(std::string_view name, std::int64_t otherwise) const {
  const Attribute* a = find(name);
  return a ? std::get<std::int64_t>(*a) : otherwise;
}

std::string_view Op::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = find(name);
  return a ? std::string_view(std::get<std::string>(*a)) : otherwise;
}

const std::vector<std::int64_t>& Op::integers(std::string_view name) const {
  static const auto& none = *new std::vector<std::int64_t>; // never destroyed: static destructors may use it
  const Attribute* a = find(name);
  return a ? std::get<std::vector<std::int64_t>>(*a) : none;
}

Value* Op::mask() const {
  if (!integer("has_mask")) return nullptr;
  return operands[operands.size() - 1 - static_cast<std::size_t>(integer("has_other"))];
}

Value* Op::other() const { return integer("has_other") ? operands.back() : nullptr; }

std::span<Value* const> Op::view_offsets() const {
  bool stores = is(Opcode::ViewStore) || is(Opcode::ViewScatter);
  return std::span(operands).subspan(stores ? 2 : 1, static_cast<std::size_t>(operands[0]->type.view_rank));
}

Value* Op::stored_value() const { return operands[1]; }

std::unique_ptr<Kernel> Kernel::clone() const {
  auto copy = std::make_unique<Kernel>(name);
  copy->grid = grid;
  copy->config_specific = config_specific;
  copy->recorded_with = recorded_with;
  ValueMap map;
  for (const auto& arg : body.args)
    map[arg.get()] = copy->body.add_arg(arg->type, arg->name);
  for (const auto& op : body.ops)
    copy->body.ops.push_back(ir::clone(*op, map));
  return copy;
}

namespace {
void collect(const Type& type, std::vector<const char*>& into) {
  for (const Dim& d : type.shape)
    d.collect_symbols(into);
}
} // namespace

std::vector<const char*> Kernel::dimensions() const {
  std::vector<const char*> names;
  for (const GridAxis& axis : grid)
    axis.tile.collect_symbols(names);
  walk(body, [&](const Op& op) {
    for (const auto& r : op.results)
      collect(r->type, names);
    for (const auto& region : op.regions)
      for (const auto& a : region->args)
        collect(a->type, names);
    for (const auto& [key, value] : op.attributes()) {
      if (auto* dim = std::get_if<Dim>(&value)) dim->collect_symbols(names);
      if (auto* shape = std::get_if<Shape>(&value))
        for (const Dim& d : *shape)
          d.collect_symbols(names);
    }
  });
  return names;
}

Op* Builder::insert(std::unique_ptr<Op> op) {
  region_->ops.push_back(std::move(op));
  return region_->ops.back().get();
}

Op* Builder::create(Opcode code, std::vector<Value*> operands, std::vector<Type> result_types) {
  return insert(std::make_unique<Op>(code, std::move(operands), std::move(result_types), loc_));
}

Value* Builder::constant(DType t, std::int64_t value) {
  if (is_float(t)) return constant(t, static_cast<double>(value));
  Op* op = create(Opcode::Constant, {}, {Type::scalar(t)});
  op->set("value", value);
  return op->result();
}

Value* Builder::constant(DType t, double value) {
  internal_check(is_float(t), "a floating constant of an integer dtype");
  Op* op = create(Opcode::Constant, {}, {Type::scalar(t)});
  op->set("value", value);
  return op->result();
}

Value* Builder::unary(Opcode code, Value* x) {
  Type type = info(code).cls == OpClass::Predicate ? x->type.with_dtype(DType::Bool) : x->type;
  return create(code, {x}, {type})->result();
}

Value* Builder::binary(Opcode code, Value* a, Value* b) {
  Type type = info(code).cls == OpClass::Compare ? a->type.with_dtype(DType::Bool) : a->type;
  return create(code, {a, b}, {type})->result();
}

Value* Builder::select(Value* condition, Value* a, Value* b) {
  return create(Opcode::Select, {condition, a, b}, {a->type})->result();
}

Value* Builder::cast(Value* x, DType to) {
  if (x->type.dtype == to && !x->type.pointer) return x;
  return create(Opcode::Cast, {x}, {x->type.with_dtype(to)})->result();
}

Value* Builder::splat(Value* scalar, const Shape& shape) {
  if (shape.empty()) return scalar;
  return create(Opcode::Splat, {scalar}, {scalar->type.with_shape(shape)})->result();
}

Value* Builder::broadcast(Value* x, const Shape& shape) {
  if (x->type.shape == shape) return x;
  if (x->type.is_scalar()) return splat(x, shape);
  while (x->type.rank() < static_cast<int>(shape.size())) {
    Shape wider = x->type.shape;
    wider.insert(wider.begin(), Dim(1));
    Op* op = create(Opcode::ExpandDims, {x}, {x->type.with_shape(wider)});
    op->set("axis", std::int64_t{0});
    x = op->result();
  }
  if (x->type.shape == shape) return x;
  return create(Opcode::Broadcast, {x}, {x->type.with_shape(shape)})->result();
}

void Builder::yield(std::vector<Value*> values) { create(Opcode::Yield, std::move(values), {}); }

void replace_uses(Region& region, const ValueMap& map) {
  if (map.empty()) return;
  auto final = [&](Value* v) {
    for (auto at = map.find(v); at != map.end(); at = map.find(v))
      v = at->second;
    return v;
  };
  walk(region, [&](Op& op) {
    for (Value*& v : op.operands)
      v = final(v);
  });
}

std::unique_ptr<Op> clone(const Op& op, ValueMap& map) {
  std::vector<Value*> operands;
  for (Value* v : op.operands) {
    auto at = map.find(v);
    operands.push_back(at == map.end() ? v : at->second);
  }
  std::vector<Type> types;
  for (const auto& r : op.results)
    types.push_back(r->type);
  auto copy = std::make_unique<Op>(op.code, std::move(operands), std::move(types), op.loc);
  for (const auto& [key, value] : op.attributes())
    copy->set(key, value);
  for (int i = 0; i < op.num_results(); ++i) {
    copy->result(i)->name = op.result(i)->name;
    map[op.result(i)] = copy->result(i);
  }
  for (const auto& region : op.regions) {
    Region* inner = copy->add_region();
    for (const auto& arg : region->args)
      map[arg.get()] = inner->add_arg(arg->type, arg->name);
    for (const auto& o : region->ops)
      inner->ops.push_back(clone(*o, map));
  }
  return copy;
}

std::unordered_map<const Value*, int> count_uses(const Region& region) {
  std::unordered_map<const Value*, int> uses;
  walk(region, [&](const Op& op) {
    for (const Value* v : op.operands)
      ++uses[v];
  });
  return uses;
}

namespace {
template <class F> bool any_op(const Op& op, F&& holds) {
  if (holds(op.info().effect)) return true;
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops)
      if (any_op(*inner, holds)) return true;
  return false;
}
} // namespace

bool may_write(const Op& op) {
  return any_op(op, [](Effect e) { return e == Effect::Write || e == Effect::ReadWrite; });
}
bool may_read(const Op& op) {
  return any_op(op, [](Effect e) { return e == Effect::Read || e == Effect::ReadWrite; });
}
bool has_side_effects(const Op& op) {
  return any_op(op,
                [](Effect e) { return e == Effect::Write || e == Effect::ReadWrite || e == Effect::Debug; });
}

} // namespace kiln::ir
