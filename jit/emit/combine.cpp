// Recognises simple combine regions, and emits any combine region operation by operation.
#include <kiln/jit/emit/combine.h>

#include <unordered_map>

namespace kiln::emit {

using ir::Opcode;
using llvm::Value;

std::optional<Opcode> simple_combine(const ir::Op& op) {
  const ir::Region& region = *op.region();
  if (op.num_results() != 1 || region.ops.size() != 2) return std::nullopt;
  const ir::Op& body = *region.ops[0];
  const ir::Op& yield = *region.ops[1];
  if (body.num_results() != 1 || yield.operands[0] != body.result() || body.num_operands() != 2)
    return std::nullopt;
  const ir::Value *a = region.args[0].get(), *b = region.args[1].get();
  bool both =
      (body.operand(0) == a && body.operand(1) == b) || (body.operand(0) == b && body.operand(1) == a);
  if (!both) return std::nullopt;
  switch (body.code) {
  case Opcode::Add:
  case Opcode::Mul:
  case Opcode::Min:
  case Opcode::Max:
  case Opcode::And:
  case Opcode::Or:
  case Opcode::Xor: return body.code;
  default: return std::nullopt;
  }
}

llvm::Constant* identity(llvm::LLVMContext& context, Opcode code, DType t) {
  llvm::Type* type = compute_type(context, t);
  unsigned bits = type->isIntegerTy() ? type->getIntegerBitWidth() : 0;
  switch (code) {
  case Opcode::Add:
    return is_float(t) ? llvm::ConstantFP::getZero(type, /*Negative=*/true)
                       : llvm::Constant::getNullValue(type);
  case Opcode::Mul: return is_float(t) ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
  case Opcode::And: return llvm::Constant::getAllOnesValue(type);
  case Opcode::Or:
  case Opcode::Xor: return llvm::Constant::getNullValue(type);
  case Opcode::Min:
    if (is_float(t))
      return llvm::ConstantFP::getNaN(type); // any number wins against it; if all are NaN, so is the result
    return llvm::ConstantInt::get(context, is_signed(t) ? llvm::APInt::getSignedMaxValue(bits)
                                                        : llvm::APInt::getMaxValue(bits));
  default:
    if (is_float(t)) return llvm::ConstantFP::getNaN(type);
    return llvm::ConstantInt::get(context, is_signed(t) ? llvm::APInt::getSignedMinValue(bits)
                                                        : llvm::APInt::getMinValue(bits));
  }
}

bool keeps_wide(const ir::Op& op) { return simple_combine(op) == Opcode::Add; }

Values emit_combine(IRBuilder& b, const NumberOptions& numbers, const ir::Region& region,
                    const Values& arguments, bool keep_wide,
                    const std::function<Value*(const ir::Value*)>& outer) {
  std::unordered_map<const ir::Value*, Value*> values;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    values[region.args[i].get()] = arguments[i];
  auto value_of = [&](const ir::Value* v) {
    auto at = values.find(v);
    return at != values.end() ? at->second : outer(v);
  };
  Values results;
  for (const auto& op : region.ops) {
    if (op->is(Opcode::Yield)) {
      for (const ir::Value* v : op->operands)
        results.push_back(value_of(v));
      break;
    }
    if (op->is(Opcode::Constant)) {
      values[op->result()] = emit_constant(b.getContext(), *op);
      continue;
    }
    Values operands;
    int lanes = 1;
    for (const ir::Value* v : op->operands) {
      operands.push_back(value_of(v));
      lanes = std::max(lanes, lanes_of(operands.back()));
    }
    for (Value*& v : operands)
      v = widen(b, v, lanes);
    values[op->result()] = keep_wide && op->is(Opcode::Add) && is_float(op->result()->type.dtype)
                               ? b.CreateFAdd(operands[0], operands[1])
                               : emit_elementwise(b, numbers, *op, operands);
  }
  return results;
}

} // namespace kiln::emit
