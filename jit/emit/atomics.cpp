// Loops of compare-and-swap.
#include <kiln/jit/emit/atomics.h>

namespace kiln::emit {

using ir::Opcode;
using llvm::Value;

namespace {

Opcode combine_of(std::string_view kind) {
  if (kind == "add") return Opcode::Add;
  if (kind == "min") return Opcode::Min;
  if (kind == "max") return Opcode::Max;
  if (kind == "and") return Opcode::And;
  if (kind == "or") return Opcode::Or;
  return Opcode::Xor;
}

llvm::Align align_of(DType t) { return llvm::Align(static_cast<std::uint64_t>(size_of(t))); }

Value* exchange_pair(IRBuilder& b, const AtomicAccess& how, Value* pointer, Value* wanted, Value* desired) {
  return b.CreateAtomicCmpXchg(pointer, wanted, desired, align_of(how.dtype), how.order,
                               llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(how.order), how.scope);
}

} // namespace

llvm::AtomicOrdering atomic_ordering(std::string_view order) {
  if (order == "relaxed") return llvm::AtomicOrdering::Monotonic;
  if (order == "acquire") return llvm::AtomicOrdering::Acquire;
  if (order == "release") return llvm::AtomicOrdering::Release;
  return llvm::AtomicOrdering::AcquireRelease;
}

Value* to_bits(IRBuilder& b, const NumberOptions& numbers, Value* v, DType t) {
  return b.CreateBitCast(to_memory(b, numbers, v, t), b.getIntNTy(static_cast<unsigned>(size_of(t)) * 8));
}

Value* from_bits(IRBuilder& b, const NumberOptions& numbers, Value* bits, DType t) {
  return from_memory(b, numbers, b.CreateBitCast(bits, memory_type(b.getContext(), t)), t);
}

Value* emit_compare_and_swap(IRBuilder& b, const AtomicAccess& how, Value* pointer, Value* wanted,
                             Value* desired) {
  return b.CreateExtractValue(exchange_pair(b, how, pointer, wanted, desired), 0);
}

Value* emit_read_modify_write(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                              std::string_view kind, Value* pointer, Value* operand) {
  const DType t = how.dtype;
  llvm::Type* bits = b.getIntNTy(static_cast<unsigned>(size_of(t)) * 8);
  llvm::LoadInst* first = b.CreateAlignedLoad(bits, pointer, align_of(t));
  first->setAtomic(llvm::AtomicOrdering::Monotonic, how.scope);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* again = llvm::BasicBlock::Create(b.getContext(), "again", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::PHINode* seen = b.CreatePHI(bits, 2);
  seen->addIncoming(first, before);
  Value* next = operand;
  if (kind != "xchg") {
    ir::Value argument; // of which only the type counts
    argument.type = ir::Type::scalar(t);
    const ir::Op combine(combine_of(kind), {&argument, &argument}, {ir::Type::scalar(t)});
    next = emit_elementwise(b, numbers, combine, {from_bits(b, numbers, seen, t), operand});
  }
  Value* pair = exchange_pair(b, how, pointer, seen, to_bits(b, numbers, next, t));
  seen->addIncoming(b.CreateExtractValue(pair, 0), b.GetInsertBlock());
  b.CreateCondBr(b.CreateExtractValue(pair, 1), done, again);
  b.SetInsertPoint(done);
  return seen;
}

} // namespace kiln::emit
