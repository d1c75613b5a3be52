// Emits the widening conversions from every element type that `dot` accepts.
#include <cmath>
#include <kiln/dsl/error.h>
#include <kiln/jit/cpu/dot/convert.h>

namespace kiln::cpu::dot {

namespace {

using llvm::Value;

// Returns `scalar`, or a vector of it with as many lanes as `like` if that is a vector.
llvm::Type* shaped(llvm::Type* scalar, Value* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
}

Value* constant(llvm::Type* type, std::uint64_t value) { return llvm::ConstantInt::get(type, value); }

// Widens a small float: puts its exponent and mantissa into those of an f32, and multiplies by the power of
// two that corrects the exponent bias. Denormals become correct as well, because that product is exact.
Value* rebias(Builder& b, Value* magnitude, int mantissa_bits, int bias) {
  Value* bits =
      b.CreateShl(magnitude, constant(magnitude->getType(), 23U - static_cast<unsigned>(mantissa_bits)));
  llvm::Type* f32 = shaped(b.getFloatTy(), magnitude);
  Value* scale = llvm::ConstantFP::get(f32, llvm::APFloat(std::ldexp(1.0F, 127 - bias)));
  return b.CreateBitCast(b.CreateFMul(b.CreateBitCast(bits, f32), scale), magnitude->getType());
}

Value* f16_bits_to_f32(Builder& b, Value* bits) {
  llvm::Type* i32 = shaped(b.getInt32Ty(), bits);
  Value* wide = b.CreateZExt(bits, i32);
  Value* magnitude = b.CreateAnd(wide, constant(i32, 0x7fff));
  Value* sign = b.CreateShl(b.CreateAnd(wide, constant(i32, 0x8000)), constant(i32, 16));
  Value* special = b.CreateICmpUGE(magnitude, constant(i32, 0x7c00));
  Value* infinite = b.CreateOr(b.CreateShl(magnitude, constant(i32, 13)), constant(i32, 0x7f800000));
  Value* result = b.CreateOr(b.CreateSelect(special, infinite, rebias(b, magnitude, 10, 15)), sign);
  return b.CreateBitCast(result, shaped(b.getFloatTy(), bits));
}

Value* f16_to_f32(Builder& b, Value* bits, const DotTarget& target) {
  if (target.x86 && !target.f16c) return f16_bits_to_f32(b, bits); // LLVM would call a runtime function
  return b.CreateFPExt(b.CreateBitCast(bits, shaped(b.getHalfTy(), bits)), shaped(b.getFloatTy(), bits));
}

// The format has no infinities; the only NaN has all bits of the magnitude set.
Value* f8e4m3_to_f32(Builder& b, Value* bits) {
  llvm::Type* i32 = shaped(b.getInt32Ty(), bits);
  Value* wide = b.CreateZExt(bits, i32);
  Value* magnitude = b.CreateAnd(wide, constant(i32, 0x7f));
  Value* sign = b.CreateShl(b.CreateAnd(wide, constant(i32, 0x80)), constant(i32, 24));
  Value* nan = b.CreateICmpEQ(magnitude, constant(i32, 0x7f));
  Value* result = b.CreateSelect(nan, constant(i32, 0x7fc00000), rebias(b, magnitude, 3, 7));
  return b.CreateBitCast(b.CreateOr(result, sign), shaped(b.getFloatTy(), bits));
}

Value* to_f32(Builder& b, Value* value, DType from, const DotTarget& target) {
  switch (from) {
  case DType::F32: return value;
  case DType::BF16: {
    llvm::Type* i32 = shaped(b.getInt32Ty(), value);
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(value, i32), constant(i32, 16)),
                           shaped(b.getFloatTy(), value));
  }
  case DType::F16: return f16_to_f32(b, value, target);
  case DType::F8E5M2: { // the upper byte of an f16
    llvm::Type* i16 = shaped(b.getInt16Ty(), value);
    return f16_to_f32(b, b.CreateShl(b.CreateZExt(value, i16), constant(i16, 8)), target);
  }
  case DType::F8E4M3: return f8e4m3_to_f32(b, value);
  default: internal_error("dot cannot widen this element type to f32");
  }
}

} // namespace

llvm::Type* memory_type(Builder& b, DType t) {
  if (t == DType::F32) return b.getFloatTy();
  if (t == DType::F64) return b.getDoubleTy();
  return b.getIntNTy(static_cast<unsigned>(size_of(t)) * 8);
}

llvm::Type* panel_element_type(Builder& b, PanelKind panel) {
  if (panel == PanelKind::F32) return b.getFloatTy();
  if (panel == PanelKind::F64) return b.getDoubleTy();
  return panel == PanelKind::I8Quads ? b.getInt8Ty() : b.getInt16Ty();
}

llvm::Value* to_panel(Builder& b, llvm::Value* value, DType from, PanelKind panel, const DotTarget& target) {
  switch (panel) {
  case PanelKind::F32: return to_f32(b, value, from, target);
  case PanelKind::F64:
    if (from == DType::F64) return value;
    return b.CreateFPExt(to_f32(b, value, from, target), shaped(b.getDoubleTy(), value));
  case PanelKind::I16Pairs: {
    llvm::Type* i16 = shaped(b.getInt16Ty(), value);
    return from == DType::I8 ? b.CreateSExt(value, i16) : b.CreateZExt(value, i16);
  }
  case PanelKind::Bf16Pairs:
  case PanelKind::I8Quads: return value;
  }
  internal_error("unknown panel kind");
}

std::array<Value*, 2> interleaved(Builder& b, Value* x, Value* y) {
  const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  llvm::SmallVector<int, 64> low, high;
  for (int i = 0; i < lanes / 2; ++i) {
    low.append({i, i + lanes});
    high.append({i + lanes / 2, i + lanes / 2 + lanes});
  }
  return {b.CreateShuffleVector(x, y, low), b.CreateShuffleVector(x, y, high)};
}

} // namespace kiln::cpu::dot
