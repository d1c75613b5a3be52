// Extends IRBuilder by vectors of lanes, counted loops with carried values, and branches.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <vector>

namespace kiln::emit {

using IRBuilder = llvm::IRBuilder<>;
using Values = std::vector<llvm::Value*>;

inline bool is_vector(const llvm::Value* v) { return v->getType()->isVectorTy(); }

inline int lanes_of(const llvm::Value* v) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return type ? static_cast<int>(type->getNumElements()) : 1;
}

// The type of a vector of `lanes` elements. For one lane it is `element` itself.
inline llvm::Type* lanes_type(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

// `element` with as many lanes as `like` has.
inline llvm::Type* same_lanes(llvm::Type* element, const llvm::Value* like) {
  return lanes_type(element, lanes_of(like));
}

inline llvm::Value* widen(IRBuilder& b, llvm::Value* v, int lanes) {
  if (lanes == 1 || is_vector(v)) return v;
  return b.CreateVectorSplat(static_cast<unsigned>(lanes), v);
}

// Widens the operand with fewer lanes to as many as the other one has.
inline void match_lanes(IRBuilder& b, llvm::Value*& x, llvm::Value*& y) {
  int lanes = std::max(lanes_of(x), lanes_of(y));
  x = widen(b, x, lanes);
  y = widen(b, y, lanes);
}

// <0, 1, ..., lanes-1> as i64.
inline llvm::Constant* lane_numbers(IRBuilder& b, int lanes) {
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < lanes; ++i)
    numbers.push_back(b.getInt64(static_cast<std::uint64_t>(i)));
  return lanes == 1 ? numbers[0] : llvm::ConstantVector::get(numbers);
}

// Emits `for (i = begin; i < end; i += step)`. The body is emitted by `body(i, carried, preheader_end)`,
// which returns the next carried values; `results` are those after the loop. Values that do not depend on the
// loop may be inserted before the instruction `preheader_end`, even while the body is being emitted.
struct Loop {
  Values results;
  llvm::Instruction* preheader_end;
};

enum class Wrap { Never, Saturate }; // whether i + step may overflow, which then ends the loop

template <class Body>
Loop emit_loop(IRBuilder& b, llvm::Value* begin, llvm::Value* end, llvm::Value* step, const Values& initial,
               Body&& body, Wrap wrap = Wrap::Never) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* header = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto* inside = llvm::BasicBlock::Create(b.getContext(), "body", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "after", function);
  Loop loop;
  llvm::BasicBlock* preheader = b.GetInsertBlock();
  loop.preheader_end = b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2, "i");
  i->addIncoming(begin, preheader);
  Values carried;
  for (llvm::Value* v : initial) {
    llvm::PHINode* phi = b.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, preheader);
    carried.push_back(phi);
  }
  b.CreateCondBr(b.CreateICmpSLT(i, end), inside, after);
  b.SetInsertPoint(inside);
  Values next = body(static_cast<llvm::Value*>(i), carried, loop.preheader_end);
  llvm::Value* following = wrap == Wrap::Never ? b.CreateNSWAdd(i, step)
                                               : b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, i, step);
  i->addIncoming(following, b.GetInsertBlock());
  for (std::size_t k = 0; k < next.size(); ++k)
    llvm::cast<llvm::PHINode>(carried[k])->addIncoming(next[k], b.GetInsertBlock());
  b.CreateBr(header);
  b.SetInsertPoint(after);
  loop.results = carried;
  return loop;
}

// The block after both branches comes last in the function, after all blocks that the branches add.
template <class Then, class Else>
void emit_if_else(IRBuilder& b, llvm::Value* condition, Then&& then, Else&& otherwise) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* taken = llvm::BasicBlock::Create(b.getContext(), "then", function);
  auto* other = llvm::BasicBlock::Create(b.getContext(), "else", function);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join");
  b.CreateCondBr(condition, taken, other);
  b.SetInsertPoint(taken);
  then();
  b.CreateBr(join);
  b.SetInsertPoint(other);
  otherwise();
  b.CreateBr(join);
  join->insertInto(function);
  b.SetInsertPoint(join);
}

// For PHI nodes: the block from which it branches is a predecessor of the block after it.
template <class Then> void emit_if(IRBuilder& b, llvm::Value* condition, Then&& then) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* taken = llvm::BasicBlock::Create(b.getContext(), "then", function);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join");
  b.CreateCondBr(condition, taken, join);
  b.SetInsertPoint(taken);
  then();
  b.CreateBr(join);
  join->insertInto(function);
  b.SetInsertPoint(join);
}

} // namespace kiln::emit
