// Emits elementwise operations: a small function for each class of operations, and casts.
#include <kiln/jit/emit/elementwise.h>

#include <kiln/dsl/float_bits.h>
#include <kiln/jit/emit/math/functions.h>
#include <kiln/jit/emit/math/math_builder.h>

#include <llvm/IR/Intrinsics.h>

#include <cmath>
#include <optional>

namespace kiln::emit {

using ir::Opcode;
using llvm::Value;

llvm::Type* compute_type(llvm::LLVMContext& context, DType t) {
  if (t == DType::Bool) return llvm::Type::getInt1Ty(context);
  if (t == DType::F64) return llvm::Type::getDoubleTy(context);
  if (is_float(t)) return llvm::Type::getFloatTy(context);
  return llvm::Type::getIntNTy(context, static_cast<unsigned>(size_of(t)) * 8);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType t) {
  if (t == DType::Bool || is_narrow_float(t))
    return llvm::Type::getIntNTy(context, static_cast<unsigned>(size_of(t)) * 8);
  return compute_type(context, t);
}

Value* to_memory(IRBuilder& b, const NumberOptions& options, Value* v, DType t) {
  if (t == DType::Bool) return b.CreateZExt(v, same_lanes(b.getInt8Ty(), v));
  if (!is_narrow_float(t)) return v;
  Value* bits = emit_float_convert(b, options.convert, DType::F32, t, v);
  if (t != DType::F8E5M2) return bits;
  // The conversion saturates, but an infinity that was loaded must be stored as an infinity.
  llvm::Type* i32 = same_lanes(b.getInt32Ty(), v);
  Value* sign = b.CreateAnd(b.CreateLShr(b.CreateBitCast(v, i32), 24), 0x80);
  Value* infinity = b.CreateTrunc(b.CreateOr(sign, 0x7C), bits->getType());
  Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  return b.CreateSelect(b.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(v->getType())), infinity,
                        bits);
}

Value* from_memory(IRBuilder& b, const NumberOptions& options, Value* bits, DType t) {
  if (t == DType::Bool) return b.CreateICmpNE(bits, llvm::Constant::getNullValue(bits->getType()));
  if (is_narrow_float(t)) return emit_float_convert(b, options.convert, t, DType::F32, bits);
  return bits;
}

Value* round_to(IRBuilder& b, const NumberOptions& options, Value* v, DType t) {
  return is_narrow_float(t)
             ? from_memory(b, options, emit_float_convert(b, options.convert, DType::F32, t, v), t)
             : v;
}

Value* emit_constant(llvm::LLVMContext& context, const ir::Op& op) {
  DType t = op.result()->type.dtype;
  llvm::Type* type = compute_type(context, t);
  const ir::Attribute& value = *op.find("value");
  if (auto* i = std::get_if<std::int64_t>(&value)) {
    if (is_float(t)) return llvm::ConstantFP::get(type, static_cast<double>(*i));
    return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(*i), is_signed(t), /*ImplicitTrunc=*/true);
  }
  double d = std::get<double>(value);
  if (is_narrow_float(t))
    d = decode_float(t, encode_float(t, d)); // the nearest value that the dtype can represent
  return llvm::ConstantFP::get(type, d);
}

namespace {

Value* int_like(IRBuilder& b, Value* like, std::uint64_t value) {
  return llvm::ConstantInt::get(like->getType(), value, false, /*ImplicitTrunc=*/true);
}

Value* intrinsic(IRBuilder& b, llvm::Intrinsic::ID id, const Values& args) {
  return b.CreateIntrinsic(id, {args[0]->getType()}, args);
}

std::optional<MathFn> math_function(Opcode code) {
  switch (code) {
  case Opcode::Exp: return MathFn::Exp;
  case Opcode::Exp2: return MathFn::Exp2;
  case Opcode::Expm1: return MathFn::Expm1;
  case Opcode::Log: return MathFn::Log;
  case Opcode::Log2: return MathFn::Log2;
  case Opcode::Log1p: return MathFn::Log1p;
  case Opcode::Sin: return MathFn::Sin;
  case Opcode::Cos: return MathFn::Cos;
  case Opcode::Tan: return MathFn::Tan;
  case Opcode::Tanh: return MathFn::Tanh;
  case Opcode::Erf: return MathFn::Erf;
  case Opcode::Gelu: return MathFn::Gelu;
  case Opcode::Sigmoid: return MathFn::Sigmoid;
  case Opcode::Sqrt: return MathFn::Sqrt;
  case Opcode::Rsqrt: return MathFn::Rsqrt;
  case Opcode::Floor: return MathFn::Floor;
  case Opcode::Ceil: return MathFn::Ceil;
  case Opcode::Trunc: return MathFn::Trunc;
  case Opcode::Round: return MathFn::Round;
  case Opcode::Pow: return MathFn::Pow;
  case Opcode::Atan2: return MathFn::Atan2;
  default: return std::nullopt;
  }
}

// Operations whose result is exact in the operands' dtype, so that no rounding is needed.
bool keeps_representable(Opcode code, DType t) {
  if (t == DType::F8E5M2) return false; // an infinity saturates
  switch (code) {
  case Opcode::Neg:
  case Opcode::Abs:
  case Opcode::Min:
  case Opcode::Max:
  case Opcode::MinNan:
  case Opcode::MaxNan:
  case Opcode::Floor:
  case Opcode::Ceil:
  case Opcode::Trunc:
  case Opcode::Round: return true;
  default: return false;
  }
}

Value* emit_unary(IRBuilder& b, Opcode code, DType t, Value* x) {
  switch (code) {
  case Opcode::Neg: return is_float(t) ? b.CreateFNeg(x) : b.CreateNeg(x);
  case Opcode::Not: return b.CreateNot(x);
  case Opcode::Abs:
    if (is_float(t)) return intrinsic(b, llvm::Intrinsic::fabs, {x});
    return is_signed(t) ? b.CreateIntrinsic(llvm::Intrinsic::abs, {x->getType()}, {x, b.getFalse()}) : x;
  case Opcode::PopCount: return intrinsic(b, llvm::Intrinsic::ctpop, {x});
  default: internal_error("no lowering of " + std::string(name(code)));
  }
}

Value* emit_division(IRBuilder& b, Opcode code, DType t, Value* x, Value* y) {
  Value* zero = int_like(b, y, 0);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  if (is_signed(t)) {
    // min / -1 traps in hardware. Its result is x with remainder 0, which dividing by 1 gives.
    auto bits = static_cast<unsigned>(size_of(t)) * 8;
    Value* overflow = b.CreateAnd(b.CreateICmpEQ(x, int_like(b, x, std::uint64_t{1} << (bits - 1))),
                                  b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType())));
    Value* safe = b.CreateSelect(b.CreateOr(by_zero, overflow), int_like(b, y, 1), y);
    return code == Opcode::Div ? b.CreateSelect(by_zero, zero, b.CreateSDiv(x, safe))
                               : b.CreateSelect(by_zero, x, b.CreateSRem(x, safe));
  }
  Value* safe = b.CreateSelect(by_zero, int_like(b, y, 1), y);
  return code == Opcode::Div ? b.CreateSelect(by_zero, zero, b.CreateUDiv(x, safe))
                             : b.CreateSelect(by_zero, x, b.CreateURem(x, safe));
}

Value* emit_shift(IRBuilder& b, Opcode code, DType t, Value* x, Value* y) {
  auto bits = static_cast<std::uint64_t>(size_of(t)) * 8;
  Value* small = b.CreateICmpULT(y, int_like(b, y, bits));
  // This is no select on `small`, because LLVM would merge it with the select below and leave both to
  // shl.b64, to which its NVPTX back end passes only the low half of a 64-bit amount.
  Value* amount = intrinsic(b, llvm::Intrinsic::umin, {y, int_like(b, y, bits - 1)});
  if (code == Opcode::Shr && is_signed(t)) return b.CreateAShr(x, amount);
  Value* shifted = code == Opcode::Shl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(small, shifted, int_like(b, x, 0));
}

// The high halves of products of vectors of 64-bit integers, from products of their halves: LLVM splits
// vectors of 128-bit integers, and takes quadratic time for a chain of them.
Value* emit_wide_multiply_high(IRBuilder& b, DType t, Value* x, Value* y) {
  auto low = [&](Value* v) { return b.CreateAnd(v, 0xffffffff); };
  auto high = [&](Value* v) { return b.CreateLShr(v, 32); };
  Value* middle = b.CreateAdd(b.CreateMul(high(x), low(y)), high(b.CreateMul(low(x), low(y))));
  Value* carried = b.CreateAdd(b.CreateMul(low(x), high(y)), low(middle));
  Value* product = b.CreateAdd(b.CreateAdd(b.CreateMul(high(x), high(y)), high(middle)), high(carried));
  if (!is_signed(t)) return product;
  auto if_negative = [&](Value* sign, Value* v) { return b.CreateAnd(b.CreateAShr(sign, 63), v); };
  return b.CreateSub(b.CreateSub(product, if_negative(x, y)), if_negative(y, x));
}

Value* emit_multiply_high(IRBuilder& b, DType t, Value* x, Value* y) {
  if (size_of(t) == 8 && x->getType()->isVectorTy()) return emit_wide_multiply_high(b, t, x, y);
  auto bits = static_cast<unsigned>(size_of(t)) * 8;
  llvm::Type* wide = same_lanes(b.getIntNTy(bits * 2), x);
  auto extend = [&](Value* v) { return is_signed(t) ? b.CreateSExt(v, wide) : b.CreateZExt(v, wide); };
  return b.CreateTrunc(b.CreateLShr(b.CreateMul(extend(x), extend(y)), llvm::ConstantInt::get(wide, bits)),
                       x->getType());
}

Value* emit_min_max(IRBuilder& b, const MathOptions& options, Opcode code, DType t, Value* x, Value* y) {
  bool min = code == Opcode::Min;
  if (is_float(t)) {
    MathBuilder m(b, options, x->getType());
    return min ? m.min(x, y) : m.max(x, y);
  }
  if (is_signed(t)) return intrinsic(b, min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, {x, y});
  return intrinsic(b, min ? llvm::Intrinsic::umin : llvm::Intrinsic::umax, {x, y});
}

// A NaN of x stays, because the comparison is false. On x86 this and the comparison are one instruction,
// which returns its second operand if one is NaN. A constant bound takes no second choice.
Value* emit_min_max_nan(IRBuilder& b, const MathOptions& options, Opcode code, Value* x, Value* y) {
  const bool min = code == Opcode::MinNan;
  if (options.max_nan && x->getType()->getScalarType()->isFloatTy())
    return intrinsic(b, min ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, {x, y});
  Value* further = min ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  Value* limited = b.CreateSelect(further, y, x);
  return b.CreateSelect(b.CreateFCmpUNO(y, y), y, limited);
}

Value* emit_binary(IRBuilder& b, const MathOptions& options, Opcode code, DType t, Value* x, Value* y) {
  bool f = is_float(t);
  switch (code) {
  case Opcode::Add: return f ? b.CreateFAdd(x, y) : t == DType::Bool ? b.CreateOr(x, y) : b.CreateAdd(x, y);
  case Opcode::Sub: return f ? b.CreateFSub(x, y) : b.CreateSub(x, y);
  case Opcode::Mul: return f ? b.CreateFMul(x, y) : b.CreateMul(x, y);
  case Opcode::MulHi: return emit_multiply_high(b, t, x, y);
  case Opcode::Div: return f ? b.CreateFDiv(x, y) : emit_division(b, code, t, x, y);
  case Opcode::Min:
  case Opcode::Max: return emit_min_max(b, options, code, t, x, y);
  case Opcode::MinNan:
  case Opcode::MaxNan: return emit_min_max_nan(b, options, code, x, y);
  case Opcode::And: return b.CreateAnd(x, y);
  case Opcode::Or: return b.CreateOr(x, y);
  case Opcode::Xor: return b.CreateXor(x, y);
  case Opcode::Shl:
  case Opcode::Shr: return emit_shift(b, code, t, x, y);
  case Opcode::Rem:
    if (!f) return emit_division(b, code, t, x, y);
    return options.hardware ? emit_exact_remainder(b, x, y)
                            : b.CreateFRem(x, y); // calls fmod of the C library
  default: break;
  }
  internal_error("no lowering of " + std::string(name(code)) + " for " + std::string(name(t)));
}

Value* emit_compare(IRBuilder& b, Opcode code, const ir::Type& type, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  static constexpr P floats[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                                 P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
  static constexpr P signs[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  static constexpr P unsigneds[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                                    P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  int which = static_cast<int>(code) - static_cast<int>(Opcode::Eq);
  if (type.pointer) return b.CreateICmp(unsigneds[which], x, y);
  if (is_float(type.dtype)) return b.CreateFCmp(floats[which], x, y);
  return b.CreateICmp(is_signed(type.dtype) ? signs[which] : unsigneds[which], x, y);
}

} // namespace

Value* emit_cast(IRBuilder& b, const NumberOptions& options, Value* v, DType from, DType to) {
  if (from == to) return v;
  llvm::Type* type = same_lanes(compute_type(b.getContext(), to), v);
  if (to == DType::Bool)
    return is_float(from) ? b.CreateFCmpUNE(v, llvm::Constant::getNullValue(v->getType()))
                          : b.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  DType held = is_narrow_float(from) ? DType::F32 : from; // narrow floats are held as f32
  if (is_float(from) && is_float(to)) {
    if (is_narrow_float(from) && to == DType::F32) return v;
    return from_memory(b, options, emit_float_convert(b, options.convert, held, to, v), to);
  }
  if (is_float(from)) return emit_float_to_integer(b, options.convert, held, to, v);
  if (is_float(to))
    return from_memory(b, options, emit_integer_to_float(b, options.convert, from, to, v), to);
  return b.CreateIntCast(v, type, is_signed(from));
}

namespace {

Value* emit_bitcast(IRBuilder& b, const NumberOptions& options, Value* v, const ir::Type& from,
                    const ir::Type& to) {
  if (from.pointer && to.pointer) return v;
  llvm::Type* address = same_lanes(b.getInt64Ty(), v);
  if (to.pointer)
    return b.CreateIntToPtr(b.CreateBitCast(to_memory(b, options, v, from.dtype), address),
                            same_lanes(b.getPtrTy(options.pointer_space), v));
  Value* bits = from.pointer ? b.CreatePtrToInt(v, address) : to_memory(b, options, v, from.dtype);
  bits = b.CreateBitCast(bits, same_lanes(memory_type(b.getContext(), to.dtype), v));
  return from_memory(b, options, bits, to.dtype);
}

} // namespace

Value* emit_elementwise(IRBuilder& b, const NumberOptions& options, const ir::Op& op, const Values& in) {
  const ir::Type& type = op.operand(0)->type;
  const ir::Type& result = op.result()->type;
  DType t = result.dtype;
  switch (op.info().cls) {
  case ir::OpClass::Unary:
  case ir::OpClass::Binary: {
    Value* v;
    if (auto fn = math_function(op.code))
      v = emit_math(b, options.math, *fn, in[0], in.size() > 1 ? in[1] : nullptr);
    else
      v = in.size() == 1 ? emit_unary(b, op.code, t, in[0])
                         : emit_binary(b, options.math, op.code, t, in[0], in[1]);
    return keeps_representable(op.code, t) ? v : round_to(b, options, v, t);
  }
  case ir::OpClass::Predicate:
    if (op.is(Opcode::IsNan)) return b.CreateFCmpUNO(in[0], in[0]);
    return b.CreateFCmpOEQ(intrinsic(b, llvm::Intrinsic::fabs, {in[0]}),
                           llvm::ConstantFP::getInfinity(in[0]->getType()));
  case ir::OpClass::Compare: return emit_compare(b, op.code, type, in[0], in[1]);
  case ir::OpClass::Ternary: {
    if (!is_float(t)) return b.CreateAdd(b.CreateMul(in[0], in[1]), in[2]);
    return round_to(b, options, intrinsic(b, llvm::Intrinsic::fma, {in[0], in[1], in[2]}), t);
  }
  case ir::OpClass::Select: return b.CreateSelect(in[0], in[1], in[2]);
  case ir::OpClass::Convert:
    if (op.is(Opcode::Cast)) return emit_cast(b, options, in[0], type.dtype, t);
    if (op.is(Opcode::Bitcast)) return emit_bitcast(b, options, in[0], type, result);
    return b.CreateGEP(memory_type(b.getContext(), result.dtype), in[0], in[1]);
  default: internal_error("not an elementwise operation: " + std::string(name(op.code)));
  }
}

} // namespace kiln::emit
