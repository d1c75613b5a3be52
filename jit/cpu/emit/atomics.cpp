// Emits atomic operations, one element after the other.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/atomics.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

Value* KernelEmitter::emit_atomic_add(const AtomicAccess& how, Value* address, Value* operand) {
  if (is_integer(how.dtype))
    return b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, address, operand,
                              llvm::MaybeAlign(static_cast<std::uint64_t>(size_of(how.dtype))), how.order);
  return from_bits(b_, numbers_, emit_read_modify_write(b_, numbers_, how, "add", address, operand),
                   how.dtype);
}

void KernelEmitter::emit_atomic(const ir::Op& op) {
  flush();
  locate(op);
  const ir::Value* result = op.result();
  if (result->type.is_tile() && users_.count(result)) own_buffer(result);
  Value* plain = may_be_plain(op);
  if (!plain) return emit_atomic_elements(op);
  emit_if_else(b_, plain, [&] { emit_plain_update(op); }, [&] { emit_atomic_elements(op); });
}

// Emits a compare-and-swap loop for each element, except for integer adds and exchanges.
void KernelEmitter::emit_atomic_elements(const ir::Op& op) {
  const ir::Value* result = op.result();
  auto domain = extents_of(result->type);
  DType t = result->type.dtype;
  bool keep = users_.count(result) != 0;
  bool swap = op.is(Opcode::AtomicCas);
  const AtomicAccess how{t, atomic_ordering(op.text("order", "acq_rel"))};
  const llvm::MaybeAlign align(static_cast<std::uint64_t>(size_of(t)));

  auto one = [&](Nest& nest, const Indices& at) -> Value* {
    Value* address = operand_element(nest, op.operand(0), at);
    Value* operand = operand_element(nest, op.operand(1), at);
    if (swap) {
      Value* desired = operand_element(nest, op.operand(2), at);
      Value* before = emit_compare_and_swap(b_, how, address, to_bits(b_, numbers_, operand, t),
                                            to_bits(b_, numbers_, desired, t));
      return from_bits(b_, numbers_, before, t);
    }
    std::string_view kind = op.text("kind");
    if (kind == "xchg")
      return from_bits(b_, numbers_,
                       b_.CreateAtomicRMW(llvm::AtomicRMWInst::Xchg, address,
                                          to_bits(b_, numbers_, operand, t), align, how.order),
                       t);
    if (kind == "add") return emit_atomic_add(how, address, operand);
    AtomicAccess idempotent = how;
    idempotent.skips_unchanged = kind != "xor";
    return from_bits(b_, numbers_, emit_read_modify_write(b_, numbers_, idempotent, kind, address, operand),
                     t);
  };

  auto element_step = [&](Nest& nest, const Indices& at) {
    Value* old = nullptr;
    if (const ir::Value* mask = op.mask()) {
      Value* wanted = operand_element(nest, mask, at);
      Value* nothing = llvm::Constant::getNullValue(compute_type(context_, t));
      llvm::BasicBlock* before = b_.GetInsertBlock();
      llvm::BasicBlock* inside = nullptr;
      Value* taken = nullptr;
      emit_if(b_, wanted, [&] {
        taken = one(nest, at);
        inside = b_.GetInsertBlock();
      });
      llvm::PHINode* phi = b_.CreatePHI(taken->getType(), 2);
      phi->addIncoming(nothing, before);
      phi->addIncoming(taken, inside);
      old = phi;
    } else {
      old = one(nest, at);
    }
    if (result->type.is_scalar())
      scalars_[result] = old;
    else if (keep)
      store_buffer(nest, own_buffer(result), at, old);
  };

  emit_each_element(domain, element_step);
}

} // namespace kiln::cpu
