// Checks the types of operations with regions: reductions, scans, loops and branches.
#include <kiln/dsl/ir/attributes.h>
#include <kiln/dsl/ir/type_checker.h>

namespace kiln::ir::detail {

std::vector<Type> Checker::result_types() const {
  std::vector<Type> types;
  for (const auto& result : op_.results)
    types.push_back(result->type);
  return types;
}

void Checker::yields(int region, const std::vector<Type>& types) {
  std::string where = op_.regions.size() > 1 ? "region " + std::to_string(region) : "the region";
  Op* yield = op_.region(region)->terminator();
  if (!require(yield, where + " does not end with yield")) return;
  if (!require(yield->operands.size() == types.size(),
               where + " yields " + std::to_string(yield->operands.size()) + " values, expected " +
                   std::to_string(types.size())))
    return;
  for (std::size_t i = 0; i < types.size(); ++i)
    if (yield->operands[i])
      require_type(yield->operands[i]->type, types[i],
                   "value " + std::to_string(i) + " that " + where + " yields");
}

void Checker::region_args(int region, int first_operand, const std::string& who) {
  const auto& args = op_.region(region)->args;
  int skipped = op_.is(Opcode::For);
  int carried = op_.num_operands() - first_operand;
  if (!require(static_cast<int>(args.size()) == skipped + carried,
               "the region has " + std::to_string(args.size()) + " arguments, expected " +
                   std::to_string(skipped + carried)))
    return;
  for (int i = 0; i < carried; ++i)
    require_type(args[static_cast<std::size_t>(skipped + i)]->type, in(first_operand + i),
                 who + " " + std::to_string(i));
}

void Checker::collective() {
  int n = op_.num_operands();
  if (!require(n >= 1, "expected at least one operand")) return;
  if (!require(op_.num_results() == n, "expected as many results as operands, " + std::to_string(n))) return;
  if (!require(in(0).is_tile(), "operand 0 has type " + in(0).to_string() + ", expected a tile")) return;
  std::int64_t axis = op_.integer("axis");
  if (!require_axis(axis, in(0).rank())) return;
  Shape shape = op_.is(Opcode::Scan) ? in(0).shape : without(in(0).shape, axis);
  const auto& args = op_.region()->args;
  bool args_fit = require(static_cast<int>(args.size()) == 2 * n,
                          "the region has " + std::to_string(args.size()) + " arguments, expected " +
                              std::to_string(2 * n) + " (a and b for each operand)");
  std::vector<Type> scalars;
  for (int i = 0; i < n; ++i) {
    std::string number = std::to_string(i);
    require(kind_of_element(in(i)) != Pointer, "operand " + number + " is a tile of pointers");
    require_shape(in(i), in(0).shape, "operand " + number);
    require_type(out(i), in(i).with_shape(shape), "result " + number);
    scalars.push_back(in(i).with_shape({}));
    if (!args_fit) continue;
    require_type(args[static_cast<std::size_t>(i)]->type, scalars.back(), "argument a" + number);
    require_type(args[static_cast<std::size_t>(n + i)]->type, scalars.back(), "argument b" + number);
  }
  yields(0, scalars);
  combine_region();
}

// Checks that the combine region only computes on scalars.
void Checker::combine_region() {
  for (const auto& inner : op_.region()->ops) {
    bool allowed = is_elementwise(inner->code) || inner->is(Opcode::Constant) || inner->is(Opcode::DimSize) ||
                   inner->is(Opcode::Yield);
    require(allowed, "the combine region holds " + std::string(name(inner->code)) +
                         "; it can only hold elementwise operations on scalars");
    for (const auto& result : inner->results)
      require(result->type.is_scalar(),
              "the combine region computes " + result->type.to_string() + "; expected scalars");
  }
}

void Checker::for_loop() {
  if (!require_least_operands(3)) return;
  static constexpr const char* bounds[] = {"the lower bound", "the upper bound", "the step"};
  for (int i = 0; i < 3; ++i)
    require_type(in(i), Type::scalar(DType::I64), bounds[i]);
  if (!require(op_.num_results() == op_.num_operands() - 3,
               "expected one result per initial value, " + std::to_string(op_.num_operands() - 3)))
    return;
  for (int i = 0; i < op_.num_results(); ++i)
    require_type(out(i), in(3 + i), "result " + std::to_string(i));
  region_args(0, 3, "carried value");
  if (!op_.region()->args.empty())
    require_type(op_.region()->args[0]->type, Type::scalar(DType::I64), "the index");
  yields(0, result_types());
}

void Checker::while_loop() {
  if (!require(op_.num_results() == op_.num_operands(),
               "expected one result per initial value, " + std::to_string(op_.num_operands())))
    return;
  for (int i = 0; i < op_.num_results(); ++i)
    require_type(out(i), in(i), "result " + std::to_string(i));
  region_args(0, 0, "argument of the condition");
  region_args(1, 0, "argument of the body");
  yields(0, {Type::scalar(DType::Bool)});
  yields(1, result_types());
}

void Checker::if_else() {
  require_type(in(0), Type::scalar(DType::Bool), "the condition");
  for (int i = 0; i < 2; ++i) {
    require(op_.region(i)->args.empty(),
            "region " + std::to_string(i) + " has arguments; the regions of an if have none");
    yields(i, result_types());
  }
}

} // namespace kiln::ir::detail
