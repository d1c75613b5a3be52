// Emits elementwise operations that take much code as loops over the elements of a thread.
// One copy of the code for each element would make up most of a kernel, and around calls all live values
// would be saved on the stack.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>
#include <llvm/IR/MDBuilder.h>

namespace kiln::gpu {

using ir::Opcode;
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

// Registers cannot be indexed. So each iteration takes the first register, moves the others up by one, and
// puts its result last. The registers of further operands rotate likewise, unless they are all the same.
Values KernelEmitter::emit_rolled(const ir::Op& op, const std::vector<Values>& operands) {
  const std::size_t count = operands.front().size();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* round = llvm::BasicBlock::Create(context_, "round", function_);
  auto* after = llvm::BasicBlock::Create(context_, "rolled", function_);
  b_.CreateBr(round);
  b_.SetInsertPoint(round);
  llvm::PHINode* done = b_.CreatePHI(b_.getInt32Ty(), 2);
  std::vector<std::vector<llvm::PHINode*>> registers(operands.size());
  Values elements;
  for (std::size_t n = 0; n < operands.size(); ++n) {
    const Values& all = operands[n];
    const bool same = std::ranges::count(all, all.front()) == static_cast<std::ptrdiff_t>(count);
    for (std::size_t k = 0; k < count && (n == 0 || !same); ++k) {
      registers[n].push_back(b_.CreatePHI(all[k]->getType(), 2));
      registers[n].back()->addIncoming(all[k], before);
    }
    elements.push_back(registers[n].empty() ? all.front() : registers[n].front());
  }
  Value* result = emit::emit_elementwise(b_, numbers_, op, elements);
  Value* now_done = b_.CreateAdd(done, b_.getInt32(1));
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpULT(now_done, b_.getInt32(static_cast<std::uint32_t>(count))), round, after)
      ->setMetadata(llvm::LLVMContext::MD_loop, not_unrolled(context_));
  done->addIncoming(b_.getInt32(0), before);
  done->addIncoming(now_done, latch);
  Values results;
  for (std::size_t n = 0; n < operands.size(); ++n)
    for (std::size_t k = 0; k < registers[n].size(); ++k) {
      Value* next = k + 1 < count ? registers[n][k + 1] : n == 0 ? result : registers[n].front();
      registers[n][k]->addIncoming(next, latch);
      if (n == 0) results.push_back(next);
    }
  b_.SetInsertPoint(after);
  return results;
}

// Emits sin, cos and tan. Huge angles take a long exact reduction (jit/emit/math/trig_reduction.cpp) and are
// rare. So all elements are tested together, and only if one is huge does the loop run, over all of them.
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
  auto* near_block = llvm::BasicBlock::Create(context_, "near", function_);
  auto* huge_block = llvm::BasicBlock::Create(context_, "huge", function_);
  auto* after = llvm::BasicBlock::Create(context_, "angles", function_);
  b_.CreateCondBr(huge, huge_block, near_block, llvm::MDBuilder(context_).createUnlikelyBranchWeights());

  b_.SetInsertPoint(near_block);
  emit::NumberOptions short_way = numbers_;
  short_way.math.near_angles = true;
  Values results;
  for (Value* angle : distinct)
    results.push_back(emit::emit_elementwise(b_, short_way, op, {angle}));
  b_.CreateBr(after);

  b_.SetInsertPoint(huge_block);
  const Values of_huge = emit_rolled(op, {distinct});
  auto* rolled = b_.GetInsertBlock();
  b_.CreateBr(after);

  b_.SetInsertPoint(after);
  for (std::size_t k = 0; k < count; ++k) {
    llvm::PHINode* phi = b_.CreatePHI(limit->getType(), 2);
    phi->addIncoming(results[k], near_block);
    phi->addIncoming(of_huge[k], rolled);
    results[k] = phi;
  }
  Values all;
  for (std::size_t at : place)
    all.push_back(results[at]);
  return all;
}

} // namespace kiln::gpu
