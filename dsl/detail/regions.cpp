// Records operations with regions: loops, branches, reductions and scans, and the Vars that they carry.
#include <kiln/dsl/detail/recording.h>

#include <algorithm>

namespace kiln::detail {

using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {
std::string_view name_in_language(Opcode code) {
  switch (code) {
  case Opcode::For: return "for_range";
  case Opcode::While: return "while_loop";
  case Opcode::If: return "if_else";
  default: return ir::name(code);
  }
}
} // namespace

// Whether a region assigns a Var is known only after the region was recorded. So every live Var first becomes
// an argument of the region. The arguments of Vars that no region assigned are then replaced by the outer
// value and removed.
struct RegionOp::Impl {
  struct Carried {
    std::uint64_t id;
    Variable before;
    std::vector<Value*> argument; // one for each region; empty for branches
    std::vector<Value*> after;    // one for each region
    bool assigned = false;
  };

  Recording& r;
  Opcode code;
  SourceLocation loc;
  std::vector<Value*> operands, initial;
  std::vector<std::unique_ptr<ir::Region>> regions;
  std::vector<Carried> variables;
  bool open = false; // between enter and leave

  bool is_combine() const { return code == Opcode::Reduce || code == Opcode::Scan; }
  bool carries_arguments() const { return code == Opcode::For || code == Opcode::While; }
  bool is_condition(std::size_t region) const { return code == Opcode::While && region == 0; }

  void restore() {
    for (const Carried& c : variables)
      if (auto at = r.variables.find(c.id); at != r.variables.end()) at->second = c.before;
  }

  void drop_unassigned() {
    for (Carried& c : variables) {
      if (c.assigned || !carries_arguments()) continue;
      for (std::size_t i = 0; i < regions.size(); ++i) {
        ir::Region& region = *regions[i];
        ir::replace_uses(region, {{c.argument[i], c.before.value}});
        auto at = std::find_if(region.args.begin(), region.args.end(),
                               [&](const auto& a) { return a.get() == c.argument[i]; });
        r.retired.push_back(std::move(*at));
        region.args.erase(at);
        for (std::size_t k = 0; k < region.args.size(); ++k)
          region.args[k]->index = static_cast<int>(k);
      }
    }
    std::erase_if(variables, [](const Carried& c) { return !c.assigned; });
  }
};

RegionOp::RegionOp(Opcode code, HandleSpan operands, HandleSpan initial) {
  Recording& r = Recording::need(name_in_language(code));
  std::unique_ptr<Impl> made(new Impl{r, code, r.loc, {}, {}, {}, {}, false});
  if (r.in_combine() && !made->is_combine() && code != Opcode::If)
    throw UserError(r.loc,
                    "kernel \"" + std::string(r.name) +
                        "\" has a loop inside the combine function of a reduction or scan; combine functions "
                        "only compute");
  for (int i = 0; i < operands.size; ++i)
    made->operands.push_back(r.use(operands.data[i]));
  for (int i = 0; i < initial.size; ++i)
    made->initial.push_back(r.use(initial.data[i]));
  for (const auto& [id, variable] : r.variables)
    made->variables.push_back({id, variable, {}, {}, false});
  impl_ = made.release();
}

RegionOp::~RegionOp() {
  if (impl_->open) {
    impl_->r.pop();
    impl_->restore();
    // After an exception that the kernel's author caught, handles may still point to arguments of the dropped
    // region, so they are kept.
    for (auto& region : impl_->regions)
      for (auto& a : region->args)
        impl_->r.retired.push_back(std::move(a));
  }
  delete impl_;
}

void RegionOp::enter(Handle* arguments) {
  Recording& r = impl_->r;
  impl_->regions.push_back(std::make_unique<ir::Region>());
  ir::Region* region = impl_->regions.back().get();
  r.push(region, impl_->is_combine());
  impl_->open = true;
  if (impl_->code == Opcode::For) *arguments++ = r.handle(region->add_arg(Type::scalar(DType::I64)));
  if (impl_->is_combine()) {
    for (int side = 0; side < 2; ++side)
      for (Value* v : impl_->initial)
        *arguments++ = r.handle(region->add_arg(v->type.with_shape({})));
    return;
  }
  if (!impl_->carries_arguments()) return;
  for (Value* v : impl_->initial)
    *arguments++ = r.handle(region->add_arg(v->type));
  for (auto& c : impl_->variables) {
    Value* a = region->add_arg(c.before.value->type);
    c.argument.push_back(a);
    r.variables[c.id] = {a, r.scopes.back().id};
  }
}

void RegionOp::leave(HandleSpan yielded) {
  Recording& r = impl_->r;
  std::vector<Value*> values;
  for (int i = 0; i < yielded.size; ++i)
    values.push_back(r.use(yielded.data[i]));
  std::size_t index = impl_->regions.size() - 1;
  for (auto& c : impl_->variables) {
    auto at = r.variables.find(c.id); // the region may have destroyed the Var
    Value* now = at == r.variables.end() ? c.before.value : at->second.value;
    bool changed =
        at != r.variables.end() && now != (c.argument.empty() ? c.before.value : c.argument.back());
    if (changed && (impl_->is_combine() || impl_->is_condition(index)))
      throw UserError(r.loc, "kernel \"" + std::string(r.name) + "\" assigns a Var inside the " +
                                 (impl_->is_combine() ? "combine function of a reduction or scan"
                                                      : "condition of while_loop") +
                                 "; only bodies of loops and branches may assign");
    c.assigned |= changed;
    c.after.push_back(now);
  }
  ir::Builder builder(impl_->regions.back().get());
  builder.set_location(r.loc);
  builder.yield(std::move(values));
  r.pop();
  impl_->open = false;
  impl_->restore();
}

void RegionOp::finish(const TypeInfo* const* result_types, int count, Handle* results,
                      AttributeList attributes) {
  Recording& r = impl_->r;
  for (const AttributeInfo& a : attributes)
    if (a.name == std::string_view("stages") && a.integer < 0)
      throw UserError(impl_->loc, "kernel \"" + std::string(r.name) + "\" has a loop with " +
                                      std::to_string(a.integer) +
                                      " stages; give 1 or more, or 0 for the config's num_stages");
  impl_->drop_unassigned();
  std::vector<Value*> operands = impl_->operands;
  operands.insert(operands.end(), impl_->initial.begin(), impl_->initial.end());
  std::vector<Type> types;
  for (int i = 0; i < count; ++i)
    types.push_back(to_type(*result_types[i]));
  for (auto& c : impl_->variables) {
    if (impl_->carries_arguments()) operands.push_back(c.before.value);
    types.push_back(c.before.value->type);
    for (std::size_t i = 0; i < impl_->regions.size(); ++i)
      if (!impl_->is_condition(i)) impl_->regions[i]->terminator()->operands.push_back(c.after[i]);
  }
  auto op = std::make_unique<ir::Op>(impl_->code, std::move(operands), std::move(types), impl_->loc);
  for (auto& region : impl_->regions) {
    region->parent = op.get();
    op->regions.push_back(std::move(region));
  }
  impl_->regions.clear();
  set_attributes(*op, attributes);
  ir::Op* made = ir::Builder(r.scopes.back().region).insert(std::move(op));
  for (int i = 0; i < count; ++i)
    results[i] = r.handle(made->result(i));
  for (std::size_t i = 0; i < impl_->variables.size(); ++i) {
    auto at = r.variables.find(impl_->variables[i].id);
    if (at != r.variables.end()) at->second = {made->result(count + static_cast<int>(i)), r.scopes.back().id};
  }
}

namespace {
// Records a reduction or scan whose combine region is the one operation `combine`.
Handle emit_collective(Opcode code, Opcode combine, Handle x, int axis, const TypeInfo& result,
                       AttributeList attributes) {
  Recording& r = Recording::need(ir::name(code));
  Handle tile = r.cast(x, result.dtype);
  RegionOp op(code, {}, {tile});
  Handle sides[2];
  op.enter(sides);
  op.leave({r.pure(combine, {sides[0].value, sides[1].value}, Type::scalar(result.dtype))});
  const TypeInfo* types[] = {&result};
  Handle reduced;
  op.finish(types, 1, &reduced, attributes);
  return reduced;
}
} // namespace

Handle emit_reduce(Opcode combine, Handle x, int axis, const TypeInfo& result) {
  return emit_collective(Opcode::Reduce, combine, x, axis, result, {{"axis", axis}});
}

Handle emit_scan(Opcode combine, Handle x, int axis, bool reverse, const TypeInfo& result) {
  return emit_collective(Opcode::Scan, combine, x, axis, result, {{"axis", axis}, {"reverse", reverse}});
}

// The combine takes the smaller index among equal elements, and every number over a NaN.
Handle emit_arg_reduce(Opcode compare, Handle x, int axis, const DimInfo& extent, const TypeInfo& result) {
  Recording& r = Recording::need(compare == Opcode::Gt ? "argmax" : "argmin");
  Value* tile = r.use(x);
  Handle index = r.pure(Opcode::Arange, {}, Type::tile(DType::I32, {to_dim(extent)}), {{"start", 0}});
  for (int after = axis + 1; after < tile->type.rank(); ++after) {
    ir::Shape shape = index.value->type.shape;
    shape.push_back(ir::Dim(1));
    index = r.pure(Opcode::ExpandDims, {index.value}, index.value->type.with_shape(shape),
                   {{"axis", static_cast<std::int64_t>(shape.size()) - 1}});
  }
  index = r.broadcast(index, tile->type.shape);

  RegionOp op(Opcode::Reduce, {}, {x, index});
  Handle sides[4];
  op.enter(sides);
  Value *a = sides[0].value, *i = sides[1].value, *b = sides[2].value, *j = sides[3].value;
  Type flag = Type::scalar(DType::Bool);
  auto logic = [&](Opcode code, Value* p, Value* q) { return r.pure(code, {p, q}, flag).value; };
  Value* earlier = logic(Opcode::Lt, j, i);
  Value* take = logic(Opcode::Or, logic(compare, b, a), logic(Opcode::And, logic(Opcode::Eq, a, b), earlier));
  if (is_float(a->type.dtype)) {
    Value* a_nan = r.pure(Opcode::IsNan, {a}, flag).value;
    Value* b_number = r.pure(Opcode::Not, {r.pure(Opcode::IsNan, {b}, flag).value}, flag).value;
    take = logic(Opcode::Or, take, logic(Opcode::And, a_nan, logic(Opcode::Or, b_number, earlier)));
  }
  op.leave({r.pure(Opcode::Select, {take, b, a}, a->type), r.pure(Opcode::Select, {take, j, i}, i->type)});
  TypeInfo values = result;
  values.dtype = tile->type.dtype;
  const TypeInfo* types[] = {&values, &result};
  Handle results[2];
  op.finish(types, 2, results, {{"axis", axis}});
  return results[1];
}

std::uint64_t variable_create(Handle initial) {
  Recording& r = Recording::need("a Var");
  r.use(initial);
  std::uint64_t id = std::uint64_t{r.id} << 32 | r.next_variable++;
  r.variables[id] = {initial.value, initial.scope};
  return id;
}

void variable_destroy(std::uint64_t id) noexcept {
  if (Recording* r = Recording::current()) r->variables.erase(id);
}

Handle variable_read(std::uint64_t id) {
  Recording& r = Recording::need("a Var");
  auto at = r.variables.find(id);
  if (at == r.variables.end())
    throw UserError(r.loc, "kernel \"" + std::string(r.name) +
                               "\" uses a Var from another recording; make it inside the kernel's lambda");
  return r.handle(at->second.value, at->second.scope);
}

void variable_assign(std::uint64_t id, Handle value) {
  variable_read(id);
  Recording& r = *Recording::current();
  r.use(value);
  r.variables[id] = {value.value, value.scope};
}

} // namespace kiln::detail
