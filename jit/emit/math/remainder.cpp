// Emits the exact remainder of floats, for targets for which LLVM has no exact one.
//
// NVPTX turns frem into x - trunc(x / y) * y, in which the quotient is rounded, so that 1 % 0.1 is below
// zero. This is long division of the significands, one bit at a time, as C libraries do it. The result is
// exact.
#include "functions.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <limits>

namespace kiln::emit {

using llvm::Value;

namespace {

class Division {
public:
  Division(llvm::IRBuilder<>& b, llvm::Function* function, llvm::Type* type)
      : b_(b), function_(function), type_(type), width_(type->isDoubleTy() ? 64 : 32),
        mantissa_(type->isDoubleTy() ? 52 : 23), bits_(b.getIntNTy(width_)) {}

  void emit() {
    auto* entry = block("entry");
    auto* finite = block("finite");
    auto* divide = block("divide");
    auto* loop = block("loop");
    auto* next = block("next");
    auto* done = block("done");
    auto* some = block("some");
    b_.SetInsertPoint(entry);
    Value *x = function_->getArg(0), *y = function_->getArg(1);
    Value* sign = b_.CreateAnd(to_bits(x), constant(sign_bit()));
    Value *ax = magnitude(x), *ay = magnitude(y), *infinity = constant(infinity_bits());
    Value* none = b_.CreateOr(b_.CreateICmpEQ(ay, constant(0)),
                              b_.CreateOr(b_.CreateICmpUGE(ax, infinity), b_.CreateICmpUGT(ay, infinity)));
    auto* not_a_number = block("not_a_number");
    b_.CreateCondBr(none, not_a_number, finite);
    b_.SetInsertPoint(not_a_number);
    b_.CreateRet(llvm::ConstantFP::get(type_, std::numeric_limits<double>::quiet_NaN()));
    b_.SetInsertPoint(finite);
    auto* dividend = block("dividend");
    b_.CreateCondBr(b_.CreateICmpULT(ax, ay), dividend, divide);
    b_.SetInsertPoint(dividend);
    b_.CreateRet(x);

    b_.SetInsertPoint(divide);
    const Parts from = parts(ax), by = parts(ay);
    Value* steps = b_.CreateSub(from.exponent, by.exponent);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode *left = b_.CreatePHI(bits_, 2), *rest = b_.CreatePHI(bits_, 2);
    left->addIncoming(steps, divide);
    rest->addIncoming(from.significand, divide);
    Value* fits = b_.CreateICmpUGE(rest, by.significand);
    Value* less = b_.CreateSelect(fits, b_.CreateSub(rest, by.significand), rest);
    b_.CreateCondBr(b_.CreateICmpEQ(left, constant(0)), done, next);
    b_.SetInsertPoint(next);
    left->addIncoming(b_.CreateSub(left, constant(1)), next);
    rest->addIncoming(b_.CreateShl(less, 1), next);
    b_.CreateBr(loop);

    b_.SetInsertPoint(done);
    auto* nothing = block("nothing");
    b_.CreateCondBr(b_.CreateICmpEQ(less, constant(0)), nothing, some);
    b_.SetInsertPoint(nothing);
    b_.CreateRet(b_.CreateBitCast(sign, type_));
    b_.SetInsertPoint(some);
    Value* shift = leading(less);
    Value* significand = b_.CreateShl(less, shift);
    Value* exponent = b_.CreateSub(by.exponent, shift);
    Value* normal =
        b_.CreateOr(b_.CreateAnd(significand, constant(mantissa_mask())), b_.CreateShl(exponent, mantissa_));
    Value* is_normal = b_.CreateICmpSGE(exponent, constant(1));
    Value* down = b_.CreateSelect(is_normal, constant(0), b_.CreateSub(constant(1), exponent));
    Value* result = b_.CreateSelect(is_normal, normal, b_.CreateLShr(significand, down));
    b_.CreateRet(b_.CreateBitCast(b_.CreateOr(result, sign), type_));
  }

private:
  struct Parts {
    Value *exponent, *significand; // the significand includes its leading one
  };
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(function_->getContext(), name, function_);
  }
  std::uint64_t sign_bit() const { return std::uint64_t{1} << (width_ - 1); }
  std::uint64_t mantissa_mask() const { return (std::uint64_t{1} << mantissa_) - 1; }
  std::uint64_t infinity_bits() const { return (sign_bit() - 1) & ~mantissa_mask(); }
  Value* constant(std::uint64_t v) { return llvm::ConstantInt::get(bits_, v); }
  Value* to_bits(Value* v) { return b_.CreateBitCast(v, bits_); }
  Value* magnitude(Value* v) { return b_.CreateAnd(to_bits(v), constant(sign_bit() - 1)); }
  // How many bits the leading one is below its normal position.
  Value* leading(Value* v) {
    Value* zeros = b_.CreateIntrinsic(llvm::Intrinsic::ctlz, {bits_}, {v, b_.getTrue()});
    return b_.CreateSub(zeros, constant(width_ - 1 - mantissa_));
  }
  Parts parts(Value* magnitude) {
    Value* exponent = b_.CreateLShr(magnitude, mantissa_);
    Value* fraction = b_.CreateAnd(magnitude, constant(mantissa_mask()));
    Value* is_subnormal = b_.CreateICmpEQ(exponent, constant(0));
    Value* shift = b_.CreateSelect(is_subnormal, leading(magnitude), constant(0));
    return {b_.CreateSelect(is_subnormal, b_.CreateSub(constant(1), shift), exponent),
            b_.CreateSelect(is_subnormal, b_.CreateShl(magnitude, shift),
                            b_.CreateOr(fraction, constant(mantissa_mask() + 1)))};
  }

  llvm::IRBuilder<>& b_;
  llvm::Function* function_;
  llvm::Type* type_;
  unsigned width_, mantissa_;
  llvm::IntegerType* bits_;
};

llvm::Function* remainder_in(llvm::Module& module, llvm::Type* type) {
  const std::string name = type->isDoubleTy() ? "kiln.remainder.f64" : "kiln.remainder.f32";
  if (auto* function = module.getFunction(name)) return function;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::AlwaysInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::WillReturn);
  function->setMemoryEffects(llvm::MemoryEffects::none());
  llvm::IRBuilder<> b(module.getContext());
  Division(b, function, type).emit();
  return function;
}

} // namespace

Value* emit_exact_remainder(llvm::IRBuilderBase& b, Value* x, Value* y) {
  llvm::Function* function =
      remainder_in(*b.GetInsertBlock()->getParent()->getParent(), x->getType()->getScalarType());
  auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!lanes) return b.CreateCall(function, {x, y});
  Value* result = llvm::PoisonValue::get(lanes);
  for (std::uint64_t i = 0; i < lanes->getNumElements(); ++i)
    result = b.CreateInsertElement(
        result, b.CreateCall(function, {b.CreateExtractElement(x, i), b.CreateExtractElement(y, i)}), i);
  return result;
}

} // namespace kiln::emit
