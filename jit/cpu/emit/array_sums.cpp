// Emits atomic sums into small arrays as plain sums into a copy that the calling thread has alone
// (facts/array_sums.h).
//
// A call of the entry point runs a range of programs. It adds to its own copy, and at its end adds the
// elements that are not zero to the array. That pays if the programs of the range add about as many elements
// as the array has, and is decided when the call begins. It also avoids that threads wait for each other's
// lines.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>

namespace kiln::cpu {

using llvm::Value;

// Replaces the data of each such array by a copy, where that pays and no other view overlaps the array.
void KernelEmitter::prepare_array_sums() {
  if (options_.debug) return;
  array_sums_ = array_sums(kernel_);
  for (const auto& [view, added] : array_sums_.arrays) {
    const std::int64_t bytes = size_of(view->type.dtype);
    Value* apart = b_.getTrue();
    for (const auto& other : kernel_.body.args)
      if (other->type.is_view() && other.get() != view)
        apart = b_.CreateAnd(apart, disjoint(view, other.get()));
    if (!facts(view).low) disjoint(view, view); // it is the only view
    ViewFacts& array = facts(view);
    OwnCopy copy;
    copy.buffer = make_buffer(view->type.dtype, false, {tuning::max_summed_array_bytes / bytes});
    IRBuilder::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_end_);
    Value* size = b_.CreateSub(array.high, array.low);
    Value* programs = b_.CreateSub(function_->getArg(3), function_->getArg(2));
    Value* sums = b_.CreateMul(programs, index_constant(added * bytes * tuning::sums_per_copied_element));
    copy.used = b_.CreateAnd(apart, b_.CreateICmpSLE(size, index_constant(tuning::max_summed_array_bytes)));
    copy.used = b_.CreateAnd(copy.used, b_.CreateICmpSGE(sums, size));
    if (sole_) copy.used = b_.CreateAnd(copy.used, b_.CreateNot(sole_));
    copy.bytes = b_.CreateSelect(copy.used, size, b_.getInt64(0));
    copy.array = b_.CreateIntToPtr(array.low, b_.getPtrTy());
    b_.CreateMemSet(copy.buffer.pointer, b_.getInt8(0), copy.bytes, llvm::MaybeAlign(64));
    Value* offset = b_.CreateSub(b_.CreatePtrToInt(array.data, b_.getInt64Ty()), array.low);
    array.data =
        b_.CreateSelect(copy.used, b_.CreateGEP(b_.getInt8Ty(), copy.buffer.pointer, offset), array.data);
    own_copies_[view] = copy;
  }
}

// Adds the copies to the arrays.
void KernelEmitter::finish_array_sums() {
  for (const auto& [view, added] : array_sums_.arrays) {
    const OwnCopy& copy = own_copies_.at(view);
    const DType t = view->type.dtype;
    llvm::Type* type = memory_type(context_, t);
    emit_loop(b_, b_.getInt64(0), copy.bytes, b_.getInt64(static_cast<std::uint64_t>(size_of(t))), {},
              [&](Value* at, const Values&, llvm::Instruction*) -> Values {
                Value* sum = b_.CreateLoad(type, b_.CreateGEP(b_.getInt8Ty(), copy.buffer.pointer, at));
                Value* zero = llvm::Constant::getNullValue(type);
                emit_if(b_, is_float(t) ? b_.CreateFCmpUNE(sum, zero) : b_.CreateICmpNE(sum, zero),
                        [&] { emit_atomic_add({t}, b_.CreateGEP(b_.getInt8Ty(), copy.array, at), sum); });
                return {};
              });
  }
}

// The copy to which an atomic operation may add; null: there is none.
const OwnCopy* KernelEmitter::own_copy(const ir::Op& atomic) const {
  const auto array = array_sums_.array_of.find(&atomic);
  return array == array_sums_.array_of.end() ? nullptr : &own_copies_.at(array->second);
}

} // namespace kiln::cpu
