// Emits operations that take many instructions as calls, in kernels that contain many of one kind.
//
// LLVM's register allocation takes more than linear time in the size of a function, and 400 inlined sines are
// 50,000 instructions. A kernel with a few of them is faster if they are inlined, because a call saves all
// vector registers. Short operations, such as sums of bf16 values, become calls only if there are so many
// that their code is long.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/tuning.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The number of instructions, approximately. LLVM divides vectors of integers one element at a time.
std::size_t size_of_code(const llvm::Function& function, const ir::Op& op) {
  std::size_t size = function.getInstructionCount();
  const bool divides = op.is(Opcode::Div) || op.is(Opcode::Rem);
  if (divides) size *= static_cast<std::size_t>(lanes_of(function.getArg(0)));
  return size;
}

} // namespace

KernelEmitter::OperationKind KernelEmitter::kind_of(const ir::Op& op) {
  return {op.code, op.operand(0)->type.dtype, op.result()->type.dtype};
}

void KernelEmitter::count_kinds() {
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    if (ir::is_elementwise(op.code) && op.result()->type.is_tile() && !op.result()->type.pointer)
      ++kinds_[kind_of(op)];
  });
}

// The function for this operation on such vectors; null if it is better inlined.
llvm::Function* KernelEmitter::shared_function(const ir::Op& op, const NumberOptions& numbers,
                                               const Values& operands) {
  const OperationKind kind = kind_of(op);
  const auto times = kinds_.find(kind);
  if (times == kinds_.end() || times->second <= tuning::max_inlined_operations) return nullptr;
  const int lanes = lanes_of(operands[0]);
  const auto [known, first] = shared_functions_.try_emplace({kind, lanes, numbers.convert.flushes_bf16});
  if (!first) return known->second;
  std::vector<llvm::Type*> types;
  for (const Value* operand : operands)
    types.push_back(operand->getType());
  llvm::Type* result = same_lanes(compute_type(context_, op.result()->type.dtype), operands[0]);
  const std::string name = "kiln." + std::string(ir::name(op.code)) + "." +
                           std::string(kiln::name(kind.from)) + "." + std::string(kiln::name(kind.to)) + "x" +
                           std::to_string(lanes) + (numbers.convert.flushes_bf16 ? ".flushed" : "");
  auto* function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                          llvm::Function::InternalLinkage, name, module_);
  function->setAttributes(function_->getAttributes()); // the instruction set decides how vectors are passed
  function->addFnAttr(llvm::Attribute::NoInline);
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  {
    IRBuilder::InsertPointGuard guard(b_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
    b_.SetCurrentDebugLocation({});
    Values arguments;
    for (llvm::Argument& argument : function->args())
      arguments.push_back(&argument);
    b_.CreateRet(emit_elementwise(b_, numbers, op, arguments));
  }
  const std::size_t size = size_of_code(*function, op);
  if (size < tuning::min_shared_instructions &&
      size * static_cast<std::size_t>(times->second) <= tuning::max_inlined_instructions) {
    function->eraseFromParent();
    function = nullptr;
  }
  return known->second = function;
}

Value* KernelEmitter::elementwise(const ir::Op& op, const NumberOptions& numbers, const Values& operands) {
  if (!op.result()->type.pointer)
    if (llvm::Function* function = shared_function(op, numbers, operands))
      return b_.CreateCall(function, operands);
  return emit_elementwise(b_, numbers, op, operands);
}

} // namespace kiln::cpu
