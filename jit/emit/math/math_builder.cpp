// Implements the operations of MathBuilder that take more than one instruction, or AVX-512.
#include <kiln/jit/emit/math/math_builder.h>

#include <bit>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

namespace kiln::emit {

using llvm::Value;

MathBuilder::MathBuilder(llvm::IRBuilderBase& builder, const MathOptions& options, llvm::Type* type)
    : b_(builder), options_(options), type_(type), int_type_(nullptr), lanes_(0),
      is_double_(type->getScalarType()->isDoubleTy()) {
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) lanes_ = vector->getNumElements();
  int_type_ = with_lanes(b_.getIntNTy(is_double_ ? 64 : 32));
}

llvm::Type* MathBuilder::with_lanes(llvm::Type* element) const {
  return lanes_ ? llvm::FixedVectorType::get(element, lanes_) : element;
}

MathBuilder MathBuilder::wide() const { return MathBuilder(b_, options_, with_lanes(b_.getDoubleTy())); }

Value* MathBuilder::constant(double value) const { return llvm::ConstantFP::get(type_, value); }
Value* MathBuilder::integer(std::int64_t value) const {
  return llvm::ConstantInt::get(int_type_, static_cast<std::uint64_t>(value), /*IsSigned=*/true,
                                /*ImplicitTrunc=*/true);
}

Value* MathBuilder::fma(Value* x, Value* y, Value* z) const {
  if (options_.has_fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z});
  if (!is_double_) { // the product is exact in f64, and the second rounding can only break a tie
    llvm::Type* wide_type = with_lanes(b_.getDoubleTy());
    Value* product = b_.CreateFMul(b_.CreateFPExt(x, wide_type), b_.CreateFPExt(y, wide_type));
    return b_.CreateFPTrunc(b_.CreateFAdd(product, b_.CreateFPExt(z, wide_type)), type_);
  }
  // Dekker, "A floating-point technique for extending the available precision" (1971): split each factor into
  // two halves whose products are exact, and then add, keeping the error of each step.
  auto split = [&](Value* v) {
    Value* high = from_bits(b_.CreateAnd(bits(v), integer(-(std::int64_t{1} << 27))));
    return std::pair(high, sub(v, high));
  };
  auto [xh, xl] = split(x);
  auto [yh, yl] = split(y);
  Value* product = mul(x, y);
  Value* error = add(add(add(sub(mul(xh, yh), product), mul(xh, yl)), mul(xl, yh)), mul(xl, yl));
  Value* sum = add(product, z);
  Value* part = sub(sum, product);
  Value* sum_error = add(sub(product, sub(sum, part)), sub(z, part));
  return add(sum, add(sum_error, error));
}

Value* MathBuilder::mul_add(Value* x, Value* y, Value* z) const {
  return options_.has_fma ? fma(x, y, z) : add(mul(x, y), z);
}

Value* MathBuilder::polynomial(llvm::ArrayRef<double> c, Value* x) const {
  Value* sum = constant(c.back());
  for (double k : llvm::reverse(c.drop_back()))
    sum = mul_add(sum, x, constant(k));
  return sum;
}

MathBuilder::Rounded MathBuilder::round_product(Value* x, double factor) const {
  Value* shifted = mul_add(x, constant(factor), constant(to_integer(bias())));
  return {sub(shifted, to_integer(bias())), from_bits(b_.CreateShl(bits(shifted), integer(mantissa())))};
}

Value* MathBuilder::sign_bit(Value* x) const {
  return b_.CreateAnd(bits(x), integer(is_double_ ? std::int64_t{1} << 63 : std::int64_t{1} << 31));
}

Value* MathBuilder::integer_bits(Value* x, double offset) const { return bits(add(x, to_integer(offset))); }

Value* MathBuilder::power_of_two(Value* n) const {
  return from_bits(b_.CreateShl(integer_bits(n, bias()), integer(mantissa())));
}

bool MathBuilder::fills_registers() const {
  return options_.avx512 && lanes_ != 0 && lanes_ % (is_double_ ? 8 : 16) == 0;
}

Value* MathBuilder::by_registers(llvm::ArrayRef<Value*> operands, const Native& f) const {
  const unsigned native = is_double_ ? 8 : 16;
  if (lanes_ == native) return f(operands);
  Value* result = llvm::PoisonValue::get(type_);
  for (unsigned i = 0; i < lanes_; i += native) {
    llvm::SmallVector<Value*, 2> parts;
    for (Value* v : operands)
      parts.push_back(
          b_.CreateExtractVector(llvm::FixedVectorType::get(v->getType()->getScalarType(), native), v, i));
    result = b_.CreateInsertVector(type_, result, f(parts), i);
  }
  return result;
}

// The control of VRANGE: bits 0 and 1 are 0 for the smaller operand, 1 for the greater one, and 2 for the one
// of smaller magnitude; bits 2 and 3 are 0 for the sign of the first operand and 1 for the sign of the
// result.
Value* MathBuilder::range(Value* x, Value* y, int control) const {
  auto id = is_double_ ? llvm::Intrinsic::x86_avx512_mask_range_pd_512
                       : llvm::Intrinsic::x86_avx512_mask_range_ps_512;
  return by_registers({x, y}, [&](llvm::ArrayRef<Value*> v) {
    Value* zero = llvm::Constant::getNullValue(v[0]->getType());
    Value* mask = llvm::ConstantInt::getAllOnesValue(b_.getIntNTy(is_double_ ? 8 : 16));
    return b_.CreateIntrinsic(id, {}, {v[0], v[1], b_.getInt32(control), zero, mask, b_.getInt32(4)});
  });
}

bool MathBuilder::scales_any() const { return fills_registers(); }

Value* MathBuilder::within(Value* r, double bound) const { return range(r, constant(bound), 0b0010); }

Value* MathBuilder::look_up(llvm::ArrayRef<double> table, Value* index) const {
  llvm::SmallVector<llvm::Constant*, 16> entries;
  for (double v : table)
    entries.push_back(llvm::ConstantFP::get(type_->getScalarType(), v));
  Value* entries_vector = llvm::ConstantVector::get(entries);
  return by_registers({index}, [&](llvm::ArrayRef<Value*> v) {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {entries_vector, v[0]});
  });
}

// maxnum takes three instructions on x86, because the maximum instruction returns the second operand if one
// is NaN. VRANGE is one instruction that is as fast as that one. (It makes a signalling NaN quiet, and maxnum
// drops it; SEMANTICS allows both.)
Value* MathBuilder::min_max(Value* x, Value* y, llvm::Intrinsic::ID id, int control) const {
  return fills_registers() ? range(x, y, control) : b_.CreateBinaryIntrinsic(id, x, y);
}

Value* MathBuilder::scale(Value* x, Value* n) const {
  if (!fills_registers()) {
    // Two steps, because 2^n alone may not be a normal number. The first product is exact.
    Value* half = unary(llvm::Intrinsic::floor, mul(n, 0.5));
    return mul(mul(x, power_of_two(half)), power_of_two(sub(n, half)));
  }
  auto id = is_double_ ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                       : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
  return by_registers({x, n}, [&](llvm::ArrayRef<Value*> v) {
    Value* zero = llvm::Constant::getNullValue(v[0]->getType());
    Value* mask = llvm::ConstantInt::getAllOnesValue(b_.getIntNTy(is_double_ ? 8 : 16));
    return b_.CreateIntrinsic(id, {},
                              {v[0], v[1], zero, mask, b_.getInt32(4 /* the current rounding mode */)});
  });
}

llvm::SmallVector<Value*, 2>
MathBuilder::if_any(Value* condition, llvm::ArrayRef<Value*> values,
                    const std::function<llvm::SmallVector<Value*, 2>()>& slow) const {
  Value* any = lanes_ ? b_.CreateOrReduce(condition) : condition;
  // Instructions after the insertion point move to a new block. There may be no terminator yet.
  const llvm::DebugLoc location = b_.getCurrentDebugLocation();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* after = llvm::BasicBlock::Create(b_.getContext(), "common", function, before->getNextNode());
  after->splice(after->end(), before, b_.GetInsertPoint(), before->end());
  if (after->getTerminator()) after->replaceSuccessorsPhiUsesWith(before, after);
  b_.SetInsertPoint(before);
  auto* rare = llvm::BasicBlock::Create(b_.getContext(), "rare", function, after);
  b_.CreateCondBr(any, rare, after, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(rare);
  llvm::SmallVector<Value*, 2> replaced = slow();
  rare = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after, after->begin());
  b_.SetCurrentDebugLocation(location);
  llvm::SmallVector<Value*, 2> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(values[i]->getType(), 2);
    phi->addIncoming(values[i], before);
    phi->addIncoming(replaced[i], rare);
    result.push_back(phi);
  }
  return result;
}

} // namespace kiln::emit
