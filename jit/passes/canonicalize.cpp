// canonicalize: simplifies every operation, until nothing changes.
//
//  1. Elementwise operations on constants are evaluated (dsl/ir/semantics.h). Commutative operations get
//     their constant on the right.
//  2. Algebraic rules are in rewrite_rules.cpp, those for shapes and conversions in canonicalize_values.cpp,
//     and those for memory in canonicalize_memory.cpp.
//  3. An elementwise operation on splats, or on broadcasts from one shape, is computed before the splat or
//     broadcast.
//  4. An if with a constant condition is replaced by the branch that is taken, and an if that only chooses
//     between values by a select. A loop without iterations is replaced by its initial values, and a loop
//     with one iteration by its body. A carried value that never changes is replaced by its initial value.
//  5. dim_size of a bound dimension, and a stride that the layout class determines, become constants.
// Operations that become unused are left to dce.
#include <kiln/jit/passes/canonicalize.h>
#include <kiln/jit/passes/commutative.h>
#include <kiln/jit/passes/passes.h>

#include <algorithm>

namespace kiln::passes {

using namespace ir;

Value* Simplifier::make(Opcode code, std::vector<Value*> operands, Type type) {
  return insert(std::make_unique<Op>(code, std::move(operands), std::vector<Type>{std::move(type)}, loc_));
}

Value* Simplifier::make(Opcode code, Value* x, Type type, std::string_view attribute, Attribute value) {
  auto op = std::make_unique<Op>(code, std::vector<Value*>{x}, std::vector<Type>{std::move(type)}, loc_);
  op->set(attribute, std::move(value));
  return insert(std::move(op));
}

Value* Simplifier::constant(const Type& type, Cell cell) {
  auto op = std::make_unique<Op>(Opcode::Constant, std::vector<Value*>{},
                                 std::vector<Type>{type.with_shape({})}, loc_);
  op->set("value", constant_attribute(type.dtype, cell));
  return splat(insert(std::move(op)), type.shape);
}

Value* Simplifier::splat(Value* scalar, const Shape& shape) {
  return shape.empty() ? scalar : make(Opcode::Splat, {scalar}, scalar->type.with_shape(shape));
}

namespace {

class Canonicalizer : public Simplifier {
public:
  // Returns whether anything changed.
  bool run(Kernel& kernel) {
    changed_ = false;
    run(kernel.body);
    return changed_;
  }

  Value* insert(std::unique_ptr<Op> op) override {
    Value* result = op->result();
    visit(std::move(op));
    return resolved(result);
  }

private:
  Value* resolved(Value* v) const {
    for (auto at = replacements_.find(v); at != replacements_.end(); at = replacements_.find(v))
      v = at->second;
    return v;
  }
  void replace(Value* v, Value* by) { replacements_[v] = by; }

  void run(Region& region) {
    Region* outer = region_;
    std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
    region.ops.clear();
    region_ = &region;
    for (auto& op : old)
      visit(std::move(op));
    region_ = outer;
  }

  // Appends the simplified operation to the current region, or nothing if its results are replaced.
  void visit(std::unique_ptr<Op> op) {
    for (Value*& v : op->operands)
      if (Value* f = resolved(v); f != v) {
        v = f;
        changed_ = true;
      }
    SourceLocation outer = loc_;
    loc_ = op->loc;
    if (does_nothing(*op) || (!op->regions.empty() ? replace_structure(*op) : replace_single(*op))) {
      changed_ = true;
      replaced_ops_.push_back(std::move(op)); // its results are keys of the map
    } else {
      Op& kept = *op;
      region_->ops.push_back(std::move(op));
      for (auto& inner : kept.regions)
        run(*inner);
    }
    loc_ = outer;
  }

  bool replace_single(Op& op) {
    if (op.num_results() != 1 || op.is(Opcode::Constant)) {
      bool in_place = false;
      simplify_memory(op, *this, &in_place);
      changed_ |= in_place;
      return false;
    }
    Value* by = simplify(op);
    if (!by) return false;
    replace(op.result(), by);
    return true;
  }

  Value* simplify(Op& op) {
    if (op.is(Opcode::DimSize)) {
      const Dim& dim = std::get<Dim>(*op.find("dim"));
      return dim.is_constant() ? constant(op.result()->type, static_cast<Cell>(dim.value())) : nullptr;
    }
    if (op.is(Opcode::ViewStride)) {
      const Type& view = op.operand(0)->type;
      bool is_one = view.layout != LayoutClass::Any && op.integer("axis") == view.view_rank - 1;
      return is_one ? constant(op.result()->type, 1) : nullptr;
    }
    if (is_elementwise(op.code)) {
      put_constant_right(op);
      if (Value* v = fold_elementwise(op, *this)) return v;
      if (Value* v = simplify_conversion(op, *this)) return v;
      return rewrite(
          op,
          [this](Opcode code, std::vector<Value*> operands, Type type) {
            return make(code, std::move(operands), std::move(type));
          },
          [this](const Type& type, Cell cell) { return constant(type, cell); });
    }
    if (op.info().cls == OpClass::Shape) return simplify_shape(op, *this);
    bool in_place = false;
    Value* v = simplify_memory(op, *this, &in_place);
    changed_ |= in_place;
    return v;
  }

  void put_constant_right(Op& op) {
    if (!is_commutative(op.code) || !constant_of(op.operand(0)) || constant_of(op.operand(1))) return;
    std::swap(op.operands[0], op.operands[1]);
    changed_ = true;
  }

  // For operations with regions. Returns whether all results are replaced.
  bool replace_structure(Op& op) {
    switch (op.code) {
    case Opcode::If: return replace_if(op);
    case Opcode::For: return replace_for(op);
    case Opcode::While: find_invariants(op, *op.region(1), 0, 0); return false;
    default: {
      Value* by = op.num_results() == 1 ? simplify_collective(op, *this) : nullptr;
      if (by) replace(op.result(), by);
      return by != nullptr;
    }
    }
  }

  // Appends the operations of a region here, and replaces the results of `op` by what the region yields.
  void inline_region(Op& op, Region& region) {
    std::vector<std::unique_ptr<Op>> ops = std::move(region.ops);
    region.ops.clear();
    for (auto& inner : ops) {
      if (!inner->is(Opcode::Yield)) {
        visit(std::move(inner));
        continue;
      }
      for (int i = 0; i < op.num_results(); ++i)
        replace(op.result(i), resolved(inner->operand(i)));
    }
  }

  bool replace_if(Op& op) {
    if (std::optional<Cell> condition = constant_of(op.operand(0))) {
      inline_region(op, *op.region(*condition ? 0 : 1));
      return true;
    }
    for (const auto& region : op.regions)
      if (region->ops.size() != 1) return false;
    for (int i = 0; i < op.num_results(); ++i) { // both values exist anyway
      Value *yes = resolved(op.region(0)->terminator()->operand(i)),
            *no = resolved(op.region(1)->terminator()->operand(i));
      Type flag = yes->type.with_dtype(DType::Bool);
      replace(op.result(i),
              yes == no ? yes : make(Opcode::Select, {splat(op.operand(0), flag.shape), yes, no}, yes->type));
    }
    return true;
  }

  bool replace_for(Op& op) {
    Region& body = *op.region();
    auto lower = constant_of(op.operand(0)), upper = constant_of(op.operand(1)),
         step = constant_of(op.operand(2));
    if (lower && upper) {
      auto from = static_cast<std::int64_t>(*lower), to = static_cast<std::int64_t>(*upper);
      if (from >= to) {
        for (int i = 0; i < op.num_results(); ++i)
          replace(op.result(i), op.operand(3 + i));
        return true;
      }
      std::int64_t next = 0;
      auto by = static_cast<std::int64_t>(step.value_or(0));
      if (by > 0 && (__builtin_add_overflow(from, by, &next) || next >= to)) {
        for (int i = 0; i < 1 + op.num_results(); ++i)
          replace(body.args[static_cast<std::size_t>(i)].get(), op.operand(i == 0 ? 0 : 2 + i));
        inline_region(op, body);
        return true;
      }
    }
    find_invariants(op, body, 3, 1);
    return false;
  }

  // Replaces carried values for which the body yields the value itself or its initial value.
  void find_invariants(Op& op, Region& body, std::size_t first_operand, std::size_t first_arg) {
    for (int i = 0; i < op.num_results(); ++i) {
      auto index = static_cast<std::size_t>(i);
      Value *arg = body.args[first_arg + index].get(), *initial = op.operands[first_operand + index];
      Value* next = resolved(body.terminator()->operand(i));
      if (next != arg && next != initial) continue;
      for (auto& region : op.regions)
        replace(region->args[first_arg + index].get(), initial);
      replace(op.result(i), initial);
    }
  }

  Region* region_ = nullptr;
  bool changed_ = false;
  ValueMap replacements_;
  std::vector<std::unique_ptr<Op>> replaced_ops_;
};

} // namespace

void canonicalize(Kernel& kernel, const PassOptions&) {
  constexpr int most_rounds = 16; // each round simplifies what the one before exposed
  for (int round = 0; round < most_rounds; ++round)
    if (!Canonicalizer().run(kernel)) return;
}

} // namespace kiln::passes
