// Emits structured LLVM IR: counted loops, lane masks, and internal functions that are found by name.
#pragma once

#include <kiln/jit/emit/lanes.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <string>

namespace kiln::cpu::dot {

using Builder = llvm::IRBuilder<>;

inline llvm::BasicBlock* new_block(Builder& b, const char* name) {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

// Emits `for (i = begin; i < end; i += step) body(i)` with signed arithmetic. `begin + step` must not
// overflow past `end`.
template <class Body>
void emit_for(Builder& b, llvm::Value* begin, llvm::Value* end, llvm::Value* step, Body&& body) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* loop = new_block(b, "loop");
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "after");
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  body(static_cast<llvm::Value*>(i));
  llvm::Value* next = b.CreateNSWAdd(i, step);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  after->insertInto(b.GetInsertBlock()->getParent());
  b.SetInsertPoint(after);
}

template <class Body>
void emit_for(Builder& b, llvm::Value* begin, llvm::Value* end, std::int64_t step, Body&& body) {
  emit_for(b, begin, end, static_cast<llvm::Value*>(b.getInt64(step)), std::forward<Body>(body));
}

// Emits `for (i = begin; i < end; i += body(i))` with signed arithmetic. `begin` must be less than `end`, and
// each step positive.
template <class Body> void emit_steps(Builder& b, llvm::Value* begin, llvm::Value* end, Body&& body) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* loop = new_block(b, "steps");
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  llvm::Value* next = b.CreateNSWAdd(i, body(static_cast<llvm::Value*>(i)));
  i->addIncoming(next, b.GetInsertBlock());
  llvm::BasicBlock* after = new_block(b, "after");
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
}

using emit::emit_if;
using emit::emit_if_else;

inline llvm::Value* smin(Builder& b, llvm::Value* x, llvm::Value* y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

// The lane mask that selects lanes 0 to count - 1.
inline llvm::Value* lanes_below(Builder& b, llvm::Value* count, int lanes) {
  llvm::SmallVector<llvm::Constant*, 16> indices;
  for (int i = 0; i < lanes; ++i)
    indices.push_back(b.getInt32(static_cast<unsigned>(i)));
  llvm::Value* limit =
      b.CreateVectorSplat(static_cast<unsigned>(lanes), b.CreateTrunc(count, b.getInt32Ty()));
  return b.CreateICmpSLT(llvm::ConstantVector::get(indices), limit);
}

// Returns the internal function of that name in the module under construction. If there is none, creates it
// and has `body(function)` emit its code, with the builder at its entry. The new function inherits the target
// attributes of the function that the builder was in.
template <class Body>
llvm::Function* routine(Builder& b, const std::string& name, llvm::ArrayRef<llvm::Type*> parameters,
                        Body&& body) {
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Module& module = *caller->getParent();
  if (llvm::Function* made = module.getFunction(name)) return made;
  auto* type = llvm::FunctionType::get(b.getVoidTy(), parameters, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::MustProgress);
  for (const char* inherited : {"target-cpu", "target-features", "prefer-vector-width", "frame-pointer"})
    if (caller->hasFnAttribute(inherited)) function->addFnAttr(caller->getFnAttribute(inherited));
  for (llvm::Attribute::AttrKind inherited : {llvm::Attribute::UWTable, llvm::Attribute::VScaleRange})
    if (caller->hasFnAttribute(inherited)) function->addFnAttr(caller->getFnAttribute(inherited));
  // The caller's source line and its fast-math flags do not apply to this function.
  Builder::InsertPointGuard insert_point(b);
  Builder::FastMathFlagGuard flags(b);
  b.clearFastMathFlags();
  b.SetCurrentDebugLocation({});
  b.SetInsertPoint(llvm::BasicBlock::Create(b.getContext(), "entry", function));
  body(function);
  return function;
}

} // namespace kiln::cpu::dot
