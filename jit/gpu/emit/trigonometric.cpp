// Sin, cos and tan of a thread's elements.
//
// Huge angles take a long exact reduction (jit/emit/math/trig_reduction.cpp). They are rare, its code for
// each element would be most of a kernel, and around a call whatever is alive would be saved on the stack. So
// the elements are tested together, and if any is huge a loop with one copy of the code goes over all of
// them. Registers have no index: a round takes the first of them, moves the others up and puts its result
// last.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>
#include <llvm/IR/MDBuilder.h>

namespace kiln::gpu {

using llvm::Value;

namespace {

// ptxas must not unroll the loop again.
llvm::MDNode* not_unrolled(llvm::LLVMContext& context) {
  auto* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  auto* loop = llvm::MDNode::getDistinct(context, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  return loop;
}

} // namespace

Values KernelEmitter::emit_trigonometric(const ir::Op& op, const Values& angles) {
  Values distinct; // elements of a broadcast tile come more than once
  std::vector<std::size_t> place;
  std::unordered_map<Value*, std::size_t> known;
  for (Value* angle : angles) {
    auto [at, fresh] = known.try_emplace(angle, distinct.size());
    if (fresh) distinct.push_back(angle);
    place.push_back(at->second);
  }
  const std::size_t count = distinct.size();
  if (count == 1) return Values(angles.size(), emit::emit_elementwise(b_, numbers_, op, {distinct.front()}));

  auto* limit = llvm::ConstantFP::get(distinct.front()->getType(), emit::near_angle);
  Value* huge = b_.getFalse();
  for (Value* angle : distinct)
    huge = b_.CreateOr(huge, b_.CreateFCmpUGE(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, angle), limit));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* near = llvm::BasicBlock::Create(context_, "near", function_);
  auto* round = llvm::BasicBlock::Create(context_, "huge", function_);
  auto* after = llvm::BasicBlock::Create(context_, "angles", function_);
  b_.CreateCondBr(huge, round, near, llvm::MDBuilder(context_).createUnlikelyBranchWeights());

  b_.SetInsertPoint(near);
  emit::NumberOptions short_way = numbers_;
  short_way.math.near_angles = true;
  Values results;
  for (Value* angle : distinct)
    results.push_back(emit::emit_elementwise(b_, short_way, op, {angle}));
  b_.CreateBr(after);

  b_.SetInsertPoint(round);
  llvm::PHINode* done = b_.CreatePHI(b_.getInt32Ty(), 2);
  std::vector<llvm::PHINode*> registers;
  for (std::size_t k = 0; k < count; ++k)
    registers.push_back(b_.CreatePHI(limit->getType(), 2));
  Values next(registers.begin() + 1, registers.end());
  next.push_back(emit::emit_elementwise(b_, numbers_, op, {registers.front()}));
  Value* now_done = b_.CreateAdd(done, b_.getInt32(1));
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpULT(now_done, b_.getInt32(static_cast<std::uint32_t>(count))), round, after)
      ->setMetadata(llvm::LLVMContext::MD_loop, not_unrolled(context_));
  done->addIncoming(b_.getInt32(0), before);
  done->addIncoming(now_done, latch);
  for (std::size_t k = 0; k < count; ++k) {
    registers[k]->addIncoming(distinct[k], before);
    registers[k]->addIncoming(next[k], latch);
  }

  b_.SetInsertPoint(after);
  for (std::size_t k = 0; k < count; ++k) {
    llvm::PHINode* phi = b_.CreatePHI(limit->getType(), 2);
    phi->addIncoming(results[k], near);
    phi->addIncoming(next[k], latch);
    results[k] = phi;
  }
  Values all;
  for (std::size_t at : place)
    all.push_back(results[at]);
  return all;
}

} // namespace kiln::gpu
