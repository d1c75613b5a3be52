// Emits conversions between float formats by integer arithmetic, and between floats and integers.
//
// Encoding follows Giesen, "Float to half conversions" (2012). For a normal result, half of the last place is
// added and the bits are shifted. For a denormal result, a power of two is added whose last place is that of
// the format, so that the FPU rounds.
#include <kiln/jit/emit/float_convert.h>

#include <kiln/dsl/error.h>
#include <kiln/dsl/float_bits.h>

#include <cmath>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::emit {

using llvm::Value;

ConvertOptions convert_options(const llvm::TargetMachine& target) {
  return {.has_f16 = !target.getTargetTriple().isX86() || target.getMCSubtargetInfo()->checkFeatures("+f16c"),
          .saturates = !target.getTargetTriple().isX86()};
}

namespace {

// Encodes and decodes values with as many lanes as `like` has.
class Converter {
public:
  Converter(llvm::IRBuilderBase& builder, const ConvertOptions& options, Value* like)
      : b_(builder), options_(options), vector_(llvm::dyn_cast<llvm::FixedVectorType>(like->getType())) {}

  llvm::Type* type(llvm::Type* element) const {
    return vector_ ? llvm::FixedVectorType::get(element, vector_->getNumElements()) : element;
  }
  llvm::Type* int_type(int bits) const { return type(b_.getIntNTy(bits)); }
  llvm::Type* single() const { return type(b_.getFloatTy()); }
  llvm::Type* wide() const { return type(b_.getDoubleTy()); }

  // From F32 or F64 to a format of 16 or 8 bits.
  Value* encode(DType format, Value* x) const {
    const SmallFloat f = small_float(format);
    const bool is_double = x->getType()->getScalarType()->isDoubleTy();
    if (narrows(options_, format) && !is_double)
      return b_.CreateBitCast(
          b_.CreateFPTrunc(x, type(format == DType::F16 ? b_.getHalfTy() : b_.getBFloatTy())), int_type(16));
    const int width = is_double ? 64 : 32, mantissa = is_double ? 52 : 23, bias = is_double ? 1023 : 127;
    llvm::Type* word_type = int_type(width);
    auto constant = [&](std::uint64_t v) { return llvm::ConstantInt::get(word_type, v); };
    auto power = [&](int exponent) { return llvm::ConstantFP::get(x->getType(), std::ldexp(1.0, exponent)); };

    Value* word = b_.CreateBitCast(x, word_type);
    if (format == DType::BF16 && !is_double) {
      using namespace llvm::PatternMatch;
      // A value that was decoded from bf16, like each result that was rounded, need not be rounded again.
      Value* bits;
      if (match(x, m_BitCast(m_Shl(m_ZExt(m_Value(bits)), m_SpecificInt(16)))) &&
          bits->getType() == int_type(16))
        return bits;
      if (options_.flushes_bf16 && vector_ && vector_->getNumElements() == 16)
        return b_.CreateBitCast(b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {x}),
                                int_type(16));
      // A bf16 is the upper half of an f32. A carry out of the significand increments the exponent, which is
      // right up to infinity, and only a NaN could carry further.
      Value* last = b_.CreateAnd(b_.CreateLShr(word, constant(16)), constant(1));
      Value* rounded = b_.CreateAdd(b_.CreateAdd(word, constant(0x7fff)), last);
      // All bits set are a NaN, and to select them by a mask of as many bits is one operation.
      Value* chosen = b_.CreateSelect(b_.CreateFCmpUNO(x, x), constant(0xffffffff), rounded);
      return b_.CreateTrunc(b_.CreateLShr(chosen, constant(16)), int_type(16));
    }
    Value* sign = b_.CreateAnd(word, constant(std::uint64_t{1} << (width - 1)));
    Value* magnitude = b_.CreateXor(word, sign);
    const int drop = mantissa - f.mantissa_bits;
    const std::uint64_t rebias = static_cast<std::uint64_t>(bias - f.bias) << mantissa;
    Value* last = b_.CreateAnd(b_.CreateLShr(magnitude, constant(drop)), constant(1));
    Value* rounded = b_.CreateAdd(magnitude, constant((std::uint64_t{1} << (drop - 1)) - 1 - rebias));
    Value* encoded = b_.CreateLShr(b_.CreateAdd(rounded, last), constant(drop));
    // If the biases are equal, denormals of both formats have the same exponent, and are shifted rightly too.
    if (bias != f.bias) {
      Value* absolute = b_.CreateBitCast(magnitude, x->getType());
      llvm::Constant* anchor = power(1 - f.bias - f.mantissa_bits + mantissa);
      Value* denormal = b_.CreateSub(b_.CreateBitCast(b_.CreateFAdd(absolute, anchor), word_type),
                                     b_.CreateBitCast(anchor, word_type));
      encoded = b_.CreateSelect(b_.CreateFCmpOLT(absolute, power(1 - f.bias)), denormal, encoded);
    }
    encoded = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, encoded, constant(f.greatest));
    Value* is_nan = b_.CreateFCmpUNO(x, x);
    sign = b_.CreateLShr(sign, constant(width - f.bits));
    if (f.signed_nan) encoded = b_.CreateSelect(is_nan, constant(f.nan), encoded);
    encoded = b_.CreateOr(encoded, sign);
    if (!f.signed_nan) encoded = b_.CreateSelect(is_nan, constant(f.nan), encoded);
    return b_.CreateTrunc(encoded, int_type(f.bits));
  }

  // From a format of 16 or 8 bits to F32.
  Value* decode(DType format, Value* bits) const {
    const SmallFloat f = small_float(format);
    if (narrows(options_, format))
      return b_.CreateFPExt(
          b_.CreateBitCast(bits, type(format == DType::F16 ? b_.getHalfTy() : b_.getBFloatTy())), single());
    llvm::Type* word_type = int_type(32);
    auto constant = [&](std::uint64_t v) { return llvm::ConstantInt::get(word_type, v); };
    Value* word = b_.CreateZExt(bits, word_type);
    if (format == DType::BF16) return b_.CreateBitCast(b_.CreateShl(word, constant(16)), single());
    Value* magnitude = b_.CreateAnd(word, constant((1u << (f.bits - 1)) - 1));
    Value* sign = b_.CreateShl(b_.CreateXor(word, magnitude), constant(32 - f.bits));
    // Read as those of an f32, exponents are too small by the difference of the biases. A multiplication
    // corrects this, and normalises denormals.
    Value* shifted = b_.CreateShl(magnitude, constant(23 - f.mantissa_bits));
    Value* scaled = b_.CreateFMul(b_.CreateBitCast(shifted, single()),
                                  llvm::ConstantFP::get(single(), std::ldexp(1.0, 127 - f.bias)));
    Value* value = b_.CreateBitCast(scaled, word_type);
    Value* special = b_.CreateICmpUGE(magnitude, constant(f.first_special));
    value = b_.CreateSelect(special, b_.CreateOr(shifted, constant(0x7f800000)), value);
    return b_.CreateBitCast(b_.CreateOr(value, sign), single());
  }

private:
  llvm::IRBuilderBase& b_;
  const ConvertOptions& options_;
  llvm::FixedVectorType* vector_;
};

bool is_small(DType t) { return small_float(t).bits != 0; }

} // namespace

Value* emit_float_convert(llvm::IRBuilderBase& b, const ConvertOptions& options, DType from, DType to,
                          Value* value) {
  internal_check(is_float(from) && is_float(to), "emit_float_convert takes float formats");
  if (from == to) return value;
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  const Converter c(b, options, value);
  if (is_small(from)) value = c.decode(from, value);
  if (is_small(to)) return c.encode(to, value);
  llvm::Type* result = to == DType::F64 ? c.wide() : c.single();
  if (value->getType() == result) return value;
  return to == DType::F64 ? b.CreateFPExt(value, result) : b.CreateFPTrunc(value, result);
}

namespace {

// Converts a vector. Values are clamped to the range of the integers, as far as the float format can
// represent its ends, and are then converted. If it cannot represent the greatest integer, values above that
// are selected separately. LLVM's own saturating conversion works element by element on x86: 32 floats to i8
// take 160 instructions with AVX2, and 30 this way.
Value* saturating_conversion(llvm::IRBuilderBase& b, Value* value, DType to) {
  const unsigned bits = 8 * static_cast<unsigned>(size_of(to));
  const bool narrow = bits < 32; // convert by way of 32 bits, which hold the whole range
  const bool is_signed_to = is_signed(to);
  auto of = [&](llvm::Type* element) {
    return llvm::VectorType::get(element, llvm::cast<llvm::VectorType>(value->getType())->getElementCount());
  };
  // Powers of two, which every float format represents: the greatest integer plus one, and the least one.
  const double end = std::ldexp(1.0, static_cast<int>(bits) - (is_signed_to ? 1 : 0));
  const double begin = is_signed_to ? -end : 0;
  auto constant = [&](double n) { return llvm::ConstantFP::get(value->getType(), n); };
  Value* given = value;
  Value* least = constant(begin);
  value = b.CreateSelect(b.CreateFCmpOGT(value, least), value, least); // NaN becomes the least
  if (is_signed_to) value = b.CreateSelect(b.CreateFCmpORD(given, given), value, constant(0));
  if (narrow) {
    Value* most = constant(end - 1);
    value = b.CreateSelect(b.CreateFCmpOLT(value, most), value, most);
    value = b.CreateFPToSI(value, of(b.getInt32Ty()));
    // This changes no value, but lets LLVM narrow by instructions that saturate.
    auto bound = [&](double n) {
      return llvm::ConstantInt::getSigned(value->getType(), static_cast<std::int64_t>(n));
    };
    value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, bound(end - 1));
    value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, bound(begin));
    value = b.CreateTrunc(value, of(b.getIntNTy(bits)));
  } else {
    Value* large = b.CreateFCmpOGE(value, constant(end));
    const llvm::APInt high =
        is_signed_to ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    llvm::Type* type = of(b.getIntNTy(bits));
    value = b.CreateFreeze(is_signed_to ? b.CreateFPToSI(value, type) : b.CreateFPToUI(value, type));
    value = b.CreateSelect(large, llvm::ConstantInt::get(type, high), value);
  }
  return value;
}

} // namespace

Value* emit_float_to_integer(llvm::IRBuilderBase& b, const ConvertOptions& options, DType from, DType to,
                             Value* value) {
  internal_check(is_float(from) && is_integer(to),
                 "emit_float_to_integer takes a float and an integer format");
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  const Converter c(b, options, value);
  if (is_small(from)) value = c.decode(from, value);
  if (value->getType()->isVectorTy() && !options.saturates) return saturating_conversion(b, value, to);
  auto id = is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b.CreateIntrinsic(id, {c.int_type(8 * size_of(to)), value->getType()}, {value});
}

Value* emit_integer_to_float(llvm::IRBuilderBase& b, const ConvertOptions& options, DType from, DType to,
                             Value* value) {
  internal_check(is_float(to) && !is_float(from),
                 "emit_integer_to_float takes an integer and a float format");
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  const Converter c(b, options, value);
  auto convert = [&](llvm::Type* type) {
    return is_signed(from) ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
  };
  if (to == DType::F64) return convert(c.wide());
  if (to == DType::F32) return convert(c.single());
  if (size_of(from) <= 2) return c.encode(to, convert(c.single())); // exact in f32
  if (size_of(from) == 8) {
    // Beyond 2^53, the conversion to f64 would already round. So make the integer a multiple of 2^11 whose
    // last bit is set if any bit is cut off, which rounds in the same way. (This matters for bf16 alone:
    // integers of this size overflow the other formats.)
    auto constant = [&](std::uint64_t v) { return llvm::ConstantInt::get(value->getType(), v); };
    Value* rest = b.CreateICmpNE(b.CreateAnd(value, constant(0x7ff)), constant(0));
    Value* sticky = b.CreateOr(b.CreateAnd(value, constant(~std::uint64_t{0x7ff})),
                               b.CreateSelect(rest, constant(0x800), constant(0)));
    Value* large = is_signed(from) ? b.CreateICmpUGT(b.CreateAdd(value, constant(std::uint64_t{1} << 53)),
                                                     constant(std::uint64_t{1} << 54))
                                   : b.CreateICmpUGT(value, constant(std::uint64_t{1} << 53));
    value = b.CreateSelect(large, sticky, value);
  }
  return c.encode(to, convert(c.wide()));
}

} // namespace kiln::emit
