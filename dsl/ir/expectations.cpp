// Compiles the operations that the `expects` of a kernel depend on, and evaluates them.
#include <kiln/dsl/ir/expectations.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/print_cells.h>

namespace kiln::ir {

class Expectations::Compiler {
public:
  Compiler(const Kernel& kernel, Expectations& into)
      : kernel_(kernel), layout_(ArgumentLayout::of(kernel)), into_(into) {}

  void add(const Op& expects) {
    expects_ = &expects;
    Check check{slot(expects.operand(0)),
                -1,
                -1,
                DType::I64,
                DType::I64,
                " and ",
                std::string(expects.text("message")),
                expects.loc};
    if (expects.num_operands() >= 3) {
      check.left = slot(expects.operand(1));
      check.right = slot(expects.operand(2));
      check.left_type = cell_dtype(expects.operand(1)->type);
      check.right_type = cell_dtype(expects.operand(2)->type);
      if (const Op* def = expects.operand(0)->def) check.relation = negated(def->code);
    }
    into_.checks_.push_back(std::move(check));
  }

private:
  static std::string_view negated(Opcode code) {
    switch (code) {
    case Opcode::Eq: return " != ";
    case Opcode::Ne: return " == ";
    case Opcode::Lt: return " >= ";
    case Opcode::Le: return " > ";
    case Opcode::Gt: return " <= ";
    case Opcode::Ge: return " < ";
    default: return " and ";
    }
  }

  [[noreturn]] void refuse(std::string_view what) {
    throw UserError(expects_->loc,
                    "expects (" + std::string(expects_->text("message")) + ") in kernel " + kernel_.name +
                        " depends on " + std::string(what) +
                        ", which the host does not know at launch; compare extents, strides, scalar "
                        "arguments and constants only, or use device_assert");
  }

  int push(Step step) {
    into_.steps_.push_back(step);
    return static_cast<int>(into_.steps_.size()) - 1;
  }
  int word(int index, DType t) { return push({Step::Kind::Word, {}, t, t, {}, static_cast<Cell>(index)}); }

  int slot(const Value* v) {
    auto at = slots_.find(v);
    if (at != slots_.end()) return at->second;
    int s = compile(v);
    slots_[v] = s;
    return s;
  }

  int compile(const Value* v) {
    if (!v->def) {
      if (v->region != &kernel_.body) refuse("a loop's state");
      if (v->type.is_view()) refuse("a whole view");
      return word(layout_.first_word[static_cast<std::size_t>(v->index)], cell_dtype(v->type));
    }
    const Op& op = *v->def;
    if (!v->type.is_scalar()) refuse("a tile");
    int axis =
        op.is(Opcode::ViewExtent) || op.is(Opcode::ViewStride) ? static_cast<int>(op.integer("axis")) : 0;
    switch (op.code) {
    case Opcode::Constant: return push({Step::Kind::Constant, {}, {}, {}, {}, constant_cell(op)});
    case Opcode::DimSize:
      return push(
          {Step::Kind::Constant, {}, {}, {}, {}, static_cast<Cell>(std::get<Dim>(*op.find("dim")).value())});
    case Opcode::ViewData: return word(layout_.first_word[parameter(op)], DType::U64);
    case Opcode::ViewExtent: return extent(op.operand(0), axis);
    case Opcode::ViewStride: return stride(op.operand(0), axis);
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
    case Opcode::ProgramTile: refuse("the program's place in the grid");
    default: break;
    }
    if (!is_elementwise(op.code) || op.is(Opcode::PtrAdd))
      refuse("the result of " + std::string(name(op.code)));
    Step step{Step::Kind::Elementwise, op.code, cell_dtype(op.operand(0)->type), cell_dtype(v->type), {}, 0};
    if (op.is(Opcode::Cast)) step.kind = Step::Kind::Cast;
    if (op.is(Opcode::Bitcast)) step.kind = Step::Kind::Bitcast;
    for (int i = 0; i < op.num_operands(); ++i)
      step.operands[i] = slot(op.operand(i));
    return push(step);
  }

  int index(std::int64_t number) {
    return push({Step::Kind::Constant, {}, {}, {}, {}, static_cast<Cell>(number)});
  }
  int of_indices(Opcode code, int a, int b) {
    return push({Step::Kind::Elementwise, code, DType::I64, DType::I64, {a, b}, 0});
  }

  int extent(const Value* view, int axis) {
    if (!view->def) return word(layout_.extent_word(view->index, axis), DType::I64);
    const Op& made = *view->def;
    if (made.is(Opcode::ViewOf)) return slot(made.operand(1 + axis));
    const int whole = extent(made.operand(0), axis);
    if (made.integer("axis") != axis) return whole;
    auto limited = [&](int bound, int least) {
      return of_indices(Opcode::Min, of_indices(Opcode::Max, bound, least), whole);
    };
    const int begin = limited(slot(made.operand(1)), index(0));
    return of_indices(Opcode::Sub, limited(slot(made.operand(2)), begin), begin);
  }
  int stride(const Value* view, int axis) {
    if (!view->def) return word(layout_.stride_word(view->index, view->type.view_rank, axis), DType::I64);
    const Op& made = *view->def;
    return made.is(Opcode::ViewOf) ? slot(made.operand(1 + view->type.view_rank + axis))
                                   : stride(made.operand(0), axis);
  }

  std::size_t parameter(const Op& op) {
    const Value* view = op.operand(0);
    if (view->def) refuse("the address of a view that the kernel makes");
    internal_check(view->region == &kernel_.body, "a view that is not a parameter");
    return static_cast<std::size_t>(view->index);
  }

  const Kernel& kernel_;
  ArgumentLayout layout_;
  Expectations& into_;
  const Op* expects_ = nullptr;
  std::unordered_map<const Value*, int> slots_;
};

Expectations Expectations::compile(const Kernel& kernel) {
  Expectations result;
  Compiler compiler(kernel, result);
  for (const auto& op : kernel.body.ops) {
    if (op->is(Opcode::Expects)) compiler.add(*op);
    for (const auto& region : op->regions)
      walk(*region, [&](const Op& inner) {
        if (inner.is(Opcode::Expects))
          throw UserError(inner.loc,
                          "expects (" + std::string(inner.text("message")) + ") in kernel " + kernel.name +
                              " is inside a loop or a branch, but it is checked once at launch; move it to "
                              "the top of the kernel, or use device_assert");
      });
  }
  return result;
}

Cell Expectations::evaluate_step(const Step& step, const Cell* slots, const std::uint64_t* arguments) const {
  switch (step.kind) {
  case Step::Kind::Word: return load_cell(step.type, arguments + step.cell);
  case Step::Kind::Constant: return step.cell;
  case Step::Kind::Cast: return evaluate_cast(step.type, step.to, slots[step.operands[0]]);
  case Step::Kind::Bitcast: return evaluate_bitcast(step.type, step.to, slots[step.operands[0]]);
  default: break;
  }
  return evaluate(step.code, step.type, slots[step.operands[0]], slots[step.operands[1]],
                  slots[step.operands[2]]);
}

void Expectations::run(Cell* slots, const std::uint64_t* arguments) const {
  for (std::size_t i = 0; i < steps_.size(); ++i)
    slots[i] = evaluate_step(steps_[i], slots, arguments);
  for (const Check& check : checks_)
    if (!slots[check.condition]) fail(check, slots);
}

void Expectations::check(const std::uint64_t* arguments) const {
  if (checks_.empty()) return;
  constexpr std::size_t usual = 128;
  if (steps_.size() <= usual) {
    Cell slots[usual] = {};
    return run(slots, arguments);
  }
  std::vector<Cell> slots(steps_.size());
  run(slots.data(), arguments);
}

void Expectations::fail(const Check& check, const Cell* slots) const {
  std::string text = "expects failed";
  if (!check.message.empty()) text += ": " + check.message;
  if (check.left >= 0)
    text += ": " + cell_to_string(check.left_type, slots[check.left]) + std::string(check.relation) +
            cell_to_string(check.right_type, slots[check.right]);
  throw UserError(check.loc, text);
}

} // namespace kiln::ir
