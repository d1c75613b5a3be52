// Emits loops that compute a new value from the old one until a compare-and-swap succeeds.
#include <kiln/jit/emit/atomics.h>

#include <algorithm>
#include <optional>

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

// Returns the old bits.
Value* exchange(IRBuilder& b, const AtomicAccess& how, Value* pointer, Value* wanted, Value* desired) {
  if (how.swap && size_of(how.dtype) == how.fewest_bytes) return how.swap(pointer, wanted, desired);
  Value* pair =
      b.CreateAtomicCmpXchg(pointer, wanted, desired, align_of(how.dtype), how.order,
                            llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(how.order), how.scope);
  return b.CreateExtractValue(pair, 0);
}

// The word around an element that is smaller than what the target can swap.
struct Word {
  llvm::Type* type;
  Value* pointer;      // to the word
  Value *shift, *mask; // of the element in the word
  Word(IRBuilder& b, Value* element, llvm::Type* bits, int bytes)
      : type(b.getIntNTy(static_cast<unsigned>(bytes) * 8)) {
    Value* below =
        b.CreateAnd(b.CreatePtrToInt(element, b.getInt64Ty()), static_cast<std::uint64_t>(bytes - 1));
    pointer = b.CreateGEP(b.getInt8Ty(), element, b.CreateNeg(below));
    shift = b.CreateTrunc(b.CreateShl(below, 3), type);
    mask = b.CreateShl(llvm::ConstantInt::get(type, (1u << bits->getIntegerBitWidth()) - 1), shift);
  }
};

bool by_word(const AtomicAccess& how) { return size_of(how.dtype) < how.fewest_bytes; }

// Repeats until no other thread has changed the element in between. `next` computes the new bits from the old
// ones. Returns the old bits. Only the element is loaded, and not its neighbours, which other threads may be
// writing or which nothing has written: the first swap assumes that they are 0, and if it fails, it returns
// them.
Value* swap_until_done(IRBuilder& b, const AtomicAccess& how, Value* pointer,
                       const std::function<Value*(Value*)>& next) {
  llvm::Type* bits = b.getIntNTy(static_cast<unsigned>(size_of(how.dtype)) * 8);
  std::optional<Word> word;
  if (by_word(how)) word.emplace(b, pointer, bits, how.fewest_bytes);
  AtomicAccess whole = how;
  if (word) whole.dtype = how.fewest_bytes == 2 ? DType::U16 : DType::U32;
  Value* at = word ? word->pointer : pointer;
  llvm::LoadInst* loaded = b.CreateAlignedLoad(bits, pointer, align_of(how.dtype));
  const bool acquires = how.skips_unchanged && how.order != llvm::AtomicOrdering::Monotonic &&
                        how.order != llvm::AtomicOrdering::Release;
  loaded->setAtomic(acquires ? llvm::AtomicOrdering::Acquire : llvm::AtomicOrdering::Monotonic, how.scope);
  Value* unchanged = how.skips_unchanged ? b.CreateICmpEQ(next(loaded), loaded) : nullptr;
  Value* first = word ? b.CreateShl(b.CreateZExt(loaded, word->type), word->shift) : loaded;
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* again = llvm::BasicBlock::Create(b.getContext(), "again", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  if (unchanged)
    b.CreateCondBr(unchanged, done, again);
  else
    b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::PHINode* seen = b.CreatePHI(first->getType(), 2);
  seen->addIncoming(first, before);
  Value* old = word ? b.CreateTrunc(b.CreateLShr(seen, word->shift), bits) : seen;
  Value* wanted = next(old);
  if (word)
    wanted = b.CreateOr(b.CreateAnd(seen, b.CreateNot(word->mask)),
                        b.CreateShl(b.CreateZExt(wanted, word->type), word->shift));
  Value* before_swap = exchange(b, whole, at, seen, wanted);
  llvm::BasicBlock* swapped = b.GetInsertBlock();
  seen->addIncoming(before_swap, swapped);
  b.CreateCondBr(b.CreateICmpEQ(before_swap, seen), done, again);
  b.SetInsertPoint(done);
  if (!unchanged) return old;
  llvm::PHINode* found = b.CreatePHI(bits, 2);
  found->addIncoming(loaded, before);
  found->addIncoming(old, swapped);
  return found;
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

Value* emit_updated(IRBuilder& b, const NumberOptions& numbers, std::string_view kind, DType t, Value* old,
                    Value* operand) {
  if (kind == "xchg") return operand;
  ir::Value argument; // only its type is used
  argument.type = ir::Type::scalar(t);
  const ir::Op combine(combine_of(kind), {&argument, &argument}, {ir::Type::scalar(t)});
  return emit_elementwise(b, numbers, combine, {old, operand});
}

Value* emit_compare_and_swap(IRBuilder& b, const AtomicAccess& how, Value* pointer, Value* wanted,
                             Value* desired) {
  if (!by_word(how)) return exchange(b, how, pointer, wanted, desired);
  return swap_until_done(
      b, how, pointer, [&](Value* old) { return b.CreateSelect(b.CreateICmpEQ(old, wanted), desired, old); });
}

Value* emit_read_modify_write(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                              std::string_view kind, Value* pointer, Value* operand) {
  const DType t = how.dtype;
  return swap_until_done(b, how, pointer, [&](Value* old) {
    if (kind == "xchg") return to_bits(b, numbers, operand, t);
    return to_bits(b, numbers, emit_updated(b, numbers, kind, t, from_bits(b, numbers, old, t), operand), t);
  });
}

// The elements are loaded at most 8 bytes at once, so that each element is loaded as a whole. If another
// thread changes some of them between the loads, the swap fails.
Value* emit_joint_update(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                         std::string_view kind, Value* pointer, Value* operand) {
  const DType t = how.dtype;
  const int lanes = lanes_of(operand), bytes = lanes * size_of(t), part = std::min(bytes, 8);
  const bool acquires = how.skips_unchanged && how.order != llvm::AtomicOrdering::Monotonic &&
                        how.order != llvm::AtomicOrdering::Release;
  llvm::Type* word = b.getIntNTy(static_cast<unsigned>(bytes) * 8);
  llvm::Type* part_word = b.getIntNTy(static_cast<unsigned>(part) * 8);
  Value* first = llvm::ConstantInt::get(word, 0);
  for (int at = 0; at < bytes; at += part) {
    llvm::LoadInst* loaded = b.CreateAlignedLoad(
        part_word, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), pointer, static_cast<std::uint64_t>(at)),
        llvm::Align(static_cast<std::uint64_t>(part)));
    loaded->setAtomic(acquires ? llvm::AtomicOrdering::Acquire : llvm::AtomicOrdering::Monotonic, how.scope);
    first = b.CreateOr(first, b.CreateShl(b.CreateZExt(loaded, word), static_cast<std::uint64_t>(8 * at)));
  }
  llvm::Type* in_memory = lanes_type(memory_type(b.getContext(), t), lanes);
  auto updated = [&](Value* seen) {
    Value* old = from_memory(b, numbers, b.CreateBitCast(seen, in_memory), t);
    return b.CreateBitCast(to_memory(b, numbers, emit_updated(b, numbers, kind, t, old, operand), t), word);
  };
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* again = llvm::BasicBlock::Create(b.getContext(), "again", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  if (how.skips_unchanged)
    b.CreateCondBr(b.CreateICmpEQ(updated(first), first), done, again);
  else
    b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::PHINode* seen = b.CreatePHI(word, 2);
  seen->addIncoming(first, before);
  Value* pair = b.CreateAtomicCmpXchg(
      pointer, seen, updated(seen), llvm::Align(static_cast<std::uint64_t>(bytes)), how.order,
      llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(how.order), how.scope);
  Value* found = b.CreateExtractValue(pair, 0);
  seen->addIncoming(found, b.GetInsertBlock());
  b.CreateCondBr(b.CreateExtractValue(pair, 1), done, again);
  llvm::BasicBlock* swapped = b.GetInsertBlock();
  b.SetInsertPoint(done);
  Value* old = seen;
  if (how.skips_unchanged) {
    llvm::PHINode* either = b.CreatePHI(word, 2);
    either->addIncoming(first, before);
    either->addIncoming(seen, swapped);
    old = either;
  }
  return from_memory(b, numbers, b.CreateBitCast(old, in_memory), t);
}

} // namespace kiln::emit
