// Emits atomic operations as plain loads and stores, where no other thread can access the elements meanwhile.
//
// That is so for sums into a copy that the calling thread has alone (array_sums.cpp), and for all operations
// of a call that is the sole one with atomic operations (sole_updates.h), as that of a launch of one thread
// mostly is. Rows of consecutive elements, such as those of `table.at(rows, columns).atomic_add(values)`, are
// then loaded, combined and stored in whole vectors. Rows may repeat, and are updated one after the other.
#include <kiln/jit/cpu/abi.h>
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/passes/index_tiles.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// Begins what end_updates() ends. A call of a kernel with while loops is never the sole one, since its programs
// may wait for those of other calls.
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

void KernelEmitter::emit_plain_update(const ir::Op& atomic) {
  const auto domain = extents_of(atomic.result()->type);
  int vector_axis = static_cast<int>(domain.size()) - 1;
  while (vector_axis >= 0 && domain[static_cast<std::size_t>(vector_axis)] == 1)
    --vector_axis;
  if (vector_axis >= 0 && passes::step_in_memory(atomic, vector_axis) == 1)
    emit_nest({Root{Root::Kind::Update, nullptr, &atomic}}, domain);
  else
    emit_each_element(domain, [&](Nest& nest, const Indices& at) { update(nest, atomic, at); });
  if (atomic.result()->type.is_scalar()) // nothing uses it
    scalars_[atomic.result()] =
        llvm::Constant::getNullValue(compute_type(context_, atomic.result()->type.dtype));
}

// Updates one vector of consecutive elements, or one element.
void KernelEmitter::update(Nest& nest, const ir::Op& atomic, const Indices& at) {
  locate(atomic);
  const ir::Value* result = atomic.result();
  const DType t = result->type.dtype;
  Access access = pointer_access(nest, atomic, at);
  Value* mask = access.mask;
  const bool one_mask = mask && !is_vector(mask);
  if (one_mask) access.mask = nullptr;
  const std::string_view kind = atomic.text("kind");
  auto change = [&] {
    Value* old = widen(b_, load_access(nest, access, t, nullptr, at), nest.lanes);
    Value* operand = widen(b_, operand_element(nest, atomic.operand(1), at), nest.lanes);
    store_access(nest, access, t, emit_updated(b_, numbers_, kind, t, old, operand));
    return old;
  };
  Value* old = nullptr;
  if (one_mask) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *inside = nullptr;
    Value* taken = nullptr;
    emit_if(b_, mask, [&] {
      taken = change();
      inside = b_.GetInsertBlock();
    });
    nest.memo.clear(); // values of the branch
    llvm::PHINode* either = b_.CreatePHI(taken->getType(), 2);
    either->addIncoming(llvm::Constant::getNullValue(taken->getType()), before);
    either->addIncoming(taken, inside);
    old = either;
  } else {
    old = change();
  }
  if (result->type.is_tile() && users_.count(result)) store_buffer(nest, own_buffer(result), at, old);
}

} // namespace kiln::cpu
