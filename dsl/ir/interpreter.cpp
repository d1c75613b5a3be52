// Implements the interpreter: executes the operations of a kernel once for each program, and keeps all
// values.
#include <kiln/dsl/ir/interpreter.h>

#include <kiln/dsl/ir/arguments.h>
#include <kiln/dsl/ir/evaluate_lookups.h>
#include <kiln/dsl/ir/evaluate_tiles.h>
#include <kiln/dsl/ir/expectations.h>
#include <kiln/dsl/ir/print_cells.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace kiln::ir {

namespace {

class Interpreter {
public:
  Interpreter(const Kernel& kernel, const std::uint64_t* arguments, std::span<const std::int64_t> grid,
              const InterpreterOptions& options)
      : kernel_(kernel), grid_(grid.begin(), grid.end()), options_(options) {
    ArgumentLayout layout = ArgumentLayout::of(kernel);
    for (const auto& arg : kernel.body.args) {
      const std::uint64_t* first = arguments + layout.first_word[static_cast<std::size_t>(arg->index)];
      Cells cells(first, first + ArgumentLayout::words_of(arg->type));
      if (!arg->type.is_view() && !arg->type.pointer) cells[0] = load_cell(arg->type.dtype, first);
      values_[arg.get()] = std::move(cells);
    }
  }

  void run_program(std::int64_t index) {
    program_.clear();
    for (std::int64_t n : grid_) {
      program_.push_back(index % n);
      index /= n;
    }
    iterations_ = 0;
    run(kernel_.body);
  }

private:
  const Cells& value(const Value* v) const { return values_.at(v); }
  std::int64_t integer(const Value* v) const { return static_cast<std::int64_t>(value(v)[0]); }

  std::vector<Cells> values_of(std::span<Value* const> list) const {
    std::vector<Cells> all;
    for (const Value* v : list)
      all.push_back(value(v));
    return all;
  }
  void assign(const std::vector<std::unique_ptr<Value>>& names, std::vector<Cells> cells,
              std::size_t first = 0) {
    for (std::size_t i = first; i < names.size(); ++i)
      values_[names[i].get()] = std::move(cells[i - first]);
  }

  // Runs a region and returns what it yields.
  std::vector<Cells> run(const Region& region) {
    for (const auto& op : region.ops) {
      if (op->is(Opcode::Yield)) return values_of(op->operands);
      run(*op);
    }
    return {};
  }

  void run(const Op& op) {
    switch (op.code) {
    case Opcode::For: return run_for(op);
    case Opcode::While: return run_while(op);
    case Opcode::If: return assign(op.results, run(*op.region(value(op.operand(0))[0] ? 0 : 1)));
    case Opcode::Reduce:
    case Opcode::Scan: return run_collective(op);
    case Opcode::Sort: return assign(op.results, evaluate_sort(op, value(op.operand(0))));
    case Opcode::ProgramId: return set_index(op, coordinate(program_, op.integer("axis"), 0));
    case Opcode::NumPrograms: return set_index(op, coordinate(grid_, op.integer("axis"), 1));
    case Opcode::ProgramTile: {
      const Shape& dims = std::get<Shape>(*op.find("dims"));
      for (std::size_t i = 0; i < dims.size(); ++i)
        values_[op.results[i].get()] = {
            static_cast<Cell>(coordinate(program_, static_cast<std::int64_t>(i), 0) * dims[i].value())};
      return;
    }
    case Opcode::Expects: return; // checked at launch
    case Opcode::DeviceAssert: return check_assert(op);
    case Opcode::DevicePrint: return print(op);
    default: break;
    }
    std::vector<const Cells*> operands;
    for (const Value* v : op.operands)
      operands.push_back(&value(v));
    Cells result = evaluate_tiles(op, operands);
    if (op.num_results() != 1) return;
    if (options_.observe && !op.result()->type.is_view()) options_.observe(*op.result(), result);
    values_[op.result()] = std::move(result);
  }

  static std::int64_t coordinate(const std::vector<std::int64_t>& list, std::int64_t axis,
                                 std::int64_t otherwise) {
    return axis >= 0 && axis < std::ssize(list) ? list[static_cast<std::size_t>(axis)] : otherwise;
  }
  void set_index(const Op& op, std::int64_t x) { values_[op.result()] = {static_cast<Cell>(x)}; }

  void count_iteration(const Op& loop) {
    if (++iterations_ > options_.max_iterations && options_.max_iterations > 0)
      throw UserError(loop.loc, "the loop in kernel " + kernel_.name + " passed " +
                                    std::to_string(options_.max_iterations) + " iterations in program " +
                                    program_text() + "; make sure that its condition becomes false");
  }

  void run_for(const Op& op) {
    std::int64_t upper = integer(op.operand(1)), step = integer(op.operand(2));
    const Region& body = *op.region();
    std::vector<Cells> carried = values_of(std::span(op.operands).subspan(3));
    std::int64_t i = integer(op.operand(0));
    while (step > 0 && i < upper) { // a step that is not positive runs nothing
      count_iteration(op);
      values_[body.args[0].get()] = {static_cast<Cell>(i)};
      assign(body.args, std::move(carried), 1);
      carried = run(body);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    assign(op.results, std::move(carried));
  }

  void run_while(const Op& op) {
    std::vector<Cells> carried = values_of(op.operands);
    for (;;) {
      assign(op.region(0)->args, carried);
      if (!run(*op.region(0)).at(0)[0]) break;
      count_iteration(op);
      assign(op.region(1)->args, std::move(carried));
      carried = run(*op.region(1));
    }
    assign(op.results, std::move(carried));
  }

  // Whether a collective is a sum of f16, bf16 or fp8, whose accumulator is f32.
  static bool is_narrow_sum(const Op& op) {
    const Region& combine = *op.region();
    DType t = op.operand(0)->type.dtype;
    if (op.num_operands() != 1 || !is_float(t) || size_of(t) >= 4 || combine.ops.size() != 2) return false;
    const Op& first = *combine.ops[0];
    return first.is(Opcode::Add) && combine.terminator()->operand(0) == first.result() &&
           first.operand(0) != first.operand(1) && first.operand(0)->region == &combine &&
           first.operand(1)->region == &combine;
  }

  // Runs a Reduce or Scan: applies combine(accumulator, element) along the axis, from the first element on.
  void run_collective(const Op& op) {
    const Type& type = op.operand(0)->type;
    auto axis = static_cast<std::size_t>(op.integer("axis"));
    std::int64_t inner = 1, outer = 1, length = type.shape[axis].value();
    for (std::size_t i = 0; i < type.shape.size(); ++i)
      (i < axis ? outer : inner) *= i == axis ? 1 : type.shape[i].value();
    bool scan = op.is(Opcode::Scan), reverse = op.integer("reverse") != 0, narrow_sum = is_narrow_sum(op);
    DType element = type.dtype;
    const Region& combine = *op.region();
    std::size_t n = op.operands.size();
    std::vector<Cells> in = values_of(op.operands), out(n);
    for (Cells& cells : out)
      cells.resize(static_cast<std::size_t>(outer * inner * (scan ? length : 1)));
    std::vector<Cell> accumulator(n);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t k = 0; k < length; ++k) {
          auto at = static_cast<std::size_t>((o * length + (reverse ? length - 1 - k : k)) * inner + i);
          if (narrow_sum) {
            Cell x = evaluate_cast(element, DType::F32, in[0][at]);
            accumulator[0] = k == 0 ? x : evaluate(Opcode::Add, DType::F32, accumulator[0], x);
          } else if (k == 0) {
            for (std::size_t v = 0; v < n; ++v)
              accumulator[v] = in[v][at];
          } else {
            for (std::size_t v = 0; v < n; ++v) {
              values_[combine.args[v].get()] = {accumulator[v]};
              values_[combine.args[n + v].get()] = {in[v][at]};
            }
            std::vector<Cells> combined = run(combine);
            for (std::size_t v = 0; v < n; ++v)
              accumulator[v] = combined[v][0];
          }
          if (!scan && k != length - 1) continue;
          for (std::size_t v = 0; v < n; ++v)
            out[v][scan ? at : static_cast<std::size_t>(o * inner + i)] =
                narrow_sum ? evaluate_cast(DType::F32, element, accumulator[v]) : accumulator[v];
        }
    assign(op.results, std::move(out));
  }

  std::string program_text() const {
    std::string text = "(";
    for (std::size_t i = 0; i < program_.size(); ++i)
      text += (i ? ", " : "") + std::to_string(program_[i]);
    return text + ")";
  }

  void check_assert(const Op& op) {
    if (!options_.device_asserts) return;
    const Cells& condition = value(op.operand(0));
    const Value* mask = op.mask();
    for (std::size_t i = 0; i < condition.size(); ++i) {
      if (condition[i] || (mask && !element(value(mask), i))) continue;
      std::string where =
          op.operand(0)->type.is_scalar() ? "" : " at element " + index_text(op.operand(0)->type, i);
      throw UserError(op.loc, "device_assert failed in program " + program_text() + where + ": " +
                                  std::string(op.text("message", "the condition is false")) +
                                  compared_text(op.operand(0), i));
    }
  }

  // ": 7 < 5 is false" for a condition that is a comparison, also with a mask (a < b | !mask). Empty for
  // others.
  std::string compared_text(const Value* condition, std::size_t i) {
    const Op* op = condition->def;
    if (!op) return {};
    if (op->is(Opcode::Or)) {
      std::string text = compared_text(op->operand(0), i);
      return text.empty() ? compared_text(op->operand(1), i) : text;
    }
    std::string_view relation = relation_text(op->code);
    if (relation.empty()) return {};
    auto side = [&](int n) {
      return cell_to_string(cell_dtype(op->operand(n)->type), value(op->operand(n))[i]);
    };
    return ": " + side(0) + std::string(relation) + side(1) + " is false";
  }

  void print(const Op& op) {
    if (!options_.print) return;
    std::string line(op.text("message"));
    for (const Value* v : op.operands)
      line += (line.empty() ? "" : " ") + cells_to_string(v->type, value(v));
    options_.print(line);
  }

  const Kernel& kernel_;
  std::vector<std::int64_t> grid_, program_;
  const InterpreterOptions& options_;
  std::unordered_map<const Value*, Cells> values_;
  std::int64_t iterations_ = 0;
};

} // namespace

void interpret(const Kernel& kernel, const std::uint64_t* arguments, std::span<const std::int64_t> grid,
               const InterpreterOptions& options) {
  Expectations::compile(kernel).check(arguments);
  std::int64_t programs = 1;
  for (std::int64_t n : grid)
    if (__builtin_mul_overflow(programs, std::max<std::int64_t>(n, 0), &programs))
      throw UserError("the grid of kernel " + kernel.name +
                      " has more than 2**63 programs; use larger tiles");
  Interpreter interpreter(kernel, arguments, grid, options);
  if (!options.shuffle_seed) {
    for (std::int64_t i = 0; i < programs; ++i)
      interpreter.run_program(i);
    return;
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(programs));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(*options.shuffle_seed);
  std::shuffle(order.begin(), order.end(), random);
  for (std::int64_t i : order)
    interpreter.run_program(i);
}

} // namespace kiln::ir
