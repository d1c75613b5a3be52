// Emits atomic operations as plain loads and stores, where no other thread can access the elements meanwhile.
//
// That is so for sums into a copy that the calling thread has alone (array_sums.cpp), and for all operations
// of a call that is the sole one with atomic operations (jit/base/sole_updates.h), as that of a launch of one
// thread mostly is.
#include <kiln/jit/cpu/abi.h>
#include <kiln/jit/cpu/emit/kernel_emitter.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// Begins what end_updates() ends. A call of a kernel with while loops is never the sole one, since its
// programs may wait for those of other calls.
void KernelEmitter::begin_updates() {
  bool atomics = false, waits = false;
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    atomics |= op.info().cls == ir::OpClass::Atomic;
    waits |= op.is(Opcode::While);
  });
  if (!atomics) return;
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  sole_answer_ = b_.CreateCall(hook(begin_updates_hook, b_.getInt32Ty(), {b_.getPtrTy(), b_.getInt32Ty()}),
                               {launch_context_, b_.getInt32(!waits && !options_.debug)}, "sole");
  if (!waits && !options_.debug) sole_ = b_.CreateICmpNE(sole_answer_, b_.getInt32(0));
}

void KernelEmitter::end_updates() {
  if (sole_answer_) b_.CreateCall(hook(end_updates_hook, b_.getVoidTy(), {b_.getInt32Ty()}), {sole_answer_});
}

// i1: an atomic operation may be carried out by plain loads and stores; null: never. Scope "sys" includes
// threads that Kiln does not know.
Value* KernelEmitter::may_be_plain(const ir::Op& atomic) {
  const ir::Value* result = atomic.result();
  const bool used_scalar = result->type.is_scalar() && users_.count(result);
  if (!atomic.is(Opcode::AtomicRmw) || used_scalar || atomic.text("scope", "gpu") == "sys") return nullptr;
  const OwnCopy* copy = own_copy(atomic);
  if (!copy) return sole_;
  return sole_ ? b_.CreateOr(sole_, copy->used) : copy->used;
}

// Updates one vector of consecutive elements, or one element. Returns the old values.
Value* KernelEmitter::update_plainly(Nest& nest, const ir::Op& atomic, const Indices& at,
                                     const Access& access, Value* operand) {
  const DType t = atomic.result()->type.dtype;
  Value* old = widen(b_, load_access(nest, access, t, nullptr, at), nest.lanes);
  store_access(nest, access, t, emit_updated(b_, numbers_, atomic.text("kind"), t, old, operand));
  return old;
}

} // namespace kiln::cpu
