// Emits the exact reduction of huge angles modulo pi/2, as internal functions of the module.
//
// Payne and Hanek, "Radian reduction for trigonometric functions" (SIGNUM Newsletter, 1983): with x = m 2^e,
// the leading bits of 2/pi do not matter, because each contributes a multiple of 4 to the product with m 2^e.
// So a window of the bits of 2/pi that starts after them is multiplied by m in integers modulo 4. f32 takes
// 96 bits, for all lanes at once; f64 takes 192 bits, lane by lane.
#include <kiln/jit/emit/math/functions.h>

#include <limits>
#include <llvm/IR/Module.h>
#include <string>

namespace kiln::emit {

using llvm::Value;

namespace {

constexpr double half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
// The bits of 2/pi after a word of zeros, so that the window of a small exponent starts inside the table.
constexpr std::uint32_t two_over_pi_32[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                            0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
constexpr std::uint64_t two_over_pi_64[] = {0,
                                            0xa2f9836e4e441529,
                                            0xfc2757d1f534ddc0,
                                            0xdb6295993c439041,
                                            0xfe5163abdebbc561,
                                            0xb7246e3a424dd2e0,
                                            0x06492eea09d1921c,
                                            0xfe1deb1cb129a73e,
                                            0xe88235f52ebb4484,
                                            0xe99c7026b45f7e41,
                                            0x3991d639835339f4,
                                            0x9c845f8bbdf9283b,
                                            0x1ff897ffde05980f,
                                            0xef2f118b5a0a6d1f,
                                            0x6d367ecf27cb09b7,
                                            0x4f463f669e5fea2d,
                                            0x7527bac7ebe5f17b,
                                            0x3d0739f78a5292ea,
                                            0x6bfb5fb11f8d5d08,
                                            0x56033046fc7b6bab,
                                            0xf0cfbc209af4361d};

Reduced reduce_single(const MathBuilder& m, Value* x) {
  auto& b = m.ir();
  const MathBuilder w = m.wide();
  Value* word = m.bits(x);
  Value* significand = b.CreateOr(b.CreateAnd(word, m.integer(0x7fffff)), m.integer(0x800000));
  // The window starts at table bit e + 30 for x = significand 2^e, e = exponent field - 150.
  Value* start = b.CreateSub(b.CreateLShr(word, m.integer(23)), m.integer(120));
  Value* index = b.CreateLShr(start, m.integer(5));
  Value* shift = b.CreateAnd(start, m.integer(31));
  Value* words[4];
  for (int k = 0; k < 4; ++k) {
    words[k] = m.integer(two_over_pi_32[k]);
    for (int i = 1; i <= 4; ++i)
      words[k] =
          b.CreateSelect(b.CreateICmpEQ(index, m.integer(i)), m.integer(two_over_pi_32[i + k]), words[k]);
  }
  auto product = [&](int k) { // significand times the k-th word of the window, in 64 bits
    Value* part = b.CreateIntrinsic(llvm::Intrinsic::fshl, {m.int_type()}, {words[k], words[k + 1], shift});
    return b.CreateMul(b.CreateZExt(part, w.int_type()), b.CreateZExt(significand, w.int_type()));
  };
  Value* sum = b.CreateAdd(b.CreateShl(product(0), w.integer(32)), product(1));
  sum = b.CreateAdd(sum, b.CreateLShr(product(2), w.integer(32)));
  // The sum has 2 bits of quadrant and 62 of fraction. Rounding to the nearest quadrant gives that a sign.
  Value* quadrant = b.CreateLShr(b.CreateAdd(sum, w.integer(std::int64_t{1} << 61)), w.integer(62));
  Value* fraction = b.CreateSub(sum, b.CreateShl(quadrant, w.integer(62)));
  Value* remainder = w.mul(b.CreateSIToFP(fraction, w.type()), half_pi_high * 0x1p-62);
  Value* finite = m.less(x, std::numeric_limits<double>::infinity());
  remainder = b.CreateSelect(finite, remainder, w.constant(std::numeric_limits<double>::quiet_NaN()));
  return {remainder, b.CreateTrunc(quadrant, m.int_type())};
}

Value* table_in(llvm::Module& module) {
  const char* name = "kiln.two_over_pi";
  if (auto* table = module.getNamedGlobal(name)) return table;
  auto* data = llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef(two_over_pi_64));
  return new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                  llvm::GlobalValue::InternalLinkage, data, name);
}

// Reduces a scalar f64.
Reduced reduce_double(const MathBuilder& m, Value* x) {
  auto& b = m.ir();
  auto* i64 = b.getInt64Ty();
  auto* i128 = b.getInt128Ty();
  auto wide = [&](std::uint64_t v) { return llvm::ConstantInt::get(i128, v); };
  Value* word = m.bits(x);
  Value* finite = m.less(x, std::numeric_limits<double>::infinity());
  Value* exponent = b.CreateLShr(word, m.integer(52));
  // The window starts at table bit e + 62 for x = significand 2^e, e = exponent field - 1075. Infinity and
  // NaN read the start of the table.
  Value* start = b.CreateSelect(finite, b.CreateSub(exponent, m.integer(1013)), m.integer(0));
  Value* significand = b.CreateOr(b.CreateAnd(word, m.integer(0xfffffffffffff)), m.integer(0x10000000000000));
  Value* index = b.CreateLShr(start, m.integer(6));
  Value* shift = b.CreateAnd(start, m.integer(63));
  Value* table = table_in(*b.GetInsertBlock()->getModule());
  Value* words[4];
  for (int k = 0; k < 4; ++k)
    words[k] =
        b.CreateAlignedLoad(i64, b.CreateGEP(i64, table, b.CreateAdd(index, m.integer(k))), llvm::Align(8));
  auto product = [&](int k) {
    Value* part = b.CreateIntrinsic(llvm::Intrinsic::fshl, {i64}, {words[k], words[k + 1], shift});
    return b.CreateMul(b.CreateZExt(part, i128), b.CreateZExt(significand, i128));
  };
  Value* sum = b.CreateAdd(b.CreateShl(product(0), wide(64)), product(1));
  sum = b.CreateAdd(sum, b.CreateLShr(product(2), wide(64)));
  Value* quadrant = b.CreateLShr(b.CreateAdd(sum, b.CreateShl(wide(1), wide(125))), wide(126));
  Value* fraction = b.CreateSub(sum, b.CreateShl(quadrant, wide(126)));
  // Take the leading 64 bits of |fraction|, so that angles close to a multiple of pi/2 stay accurate.
  Value* negative = b.CreateICmpSLT(fraction, wide(0));
  Value* magnitude = b.CreateSelect(negative, b.CreateNeg(fraction), fraction);
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, magnitude, b.getFalse());
  zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, zeros, wide(100));
  Value* leading = b.CreateTrunc(b.CreateLShr(b.CreateShl(magnitude, zeros), wide(64)), i64);
  // value = leading 2^(64 - zeros - 126) pi/2, with pi/2 in two parts and `leading` in two exact halves.
  Value* upper = m.mul(b.CreateUIToFP(b.CreateLShr(leading, m.integer(32)), m.type()), 0x1p32);
  Value* lower = b.CreateUIToFP(b.CreateAnd(leading, m.integer(0xffffffff)), m.type());
  Value* angle =
      m.fma(upper, half_pi_high, m.mul_add(upper, m.constant(half_pi_low), m.mul(lower, half_pi_high)));
  Value* power_field =
      b.CreateShl(b.CreateSub(m.integer(1023 - 62), b.CreateTrunc(zeros, i64)), m.integer(52));
  Value* remainder = m.mul(angle, m.from_bits(power_field));
  remainder = m.select(negative, m.neg(remainder), remainder);
  remainder = m.select(finite, remainder, m.constant(std::numeric_limits<double>::quiet_NaN()));
  return {remainder, b.CreateTrunc(quadrant, i64)};
}

Reduced reduce_lanes(const MathBuilder& m, Value* x) {
  if (!m.is_double()) return reduce_single(m, x);
  if (m.lanes() == 0) return reduce_double(m, x);
  auto& b = m.ir();
  const MathBuilder scalar(b, m.options(), b.getDoubleTy());
  Reduced result = {llvm::PoisonValue::get(m.type()), llvm::PoisonValue::get(m.int_type())};
  for (unsigned i = 0; i < m.lanes(); ++i) {
    Value* lane = b.CreateExtractElement(x, i);
    // Lanes that need no exact reduction may have any value, but must not read outside of the table.
    lane = scalar.select(scalar.less(lane, 0.5), scalar.constant(0.5), lane);
    Reduced one = reduce_double(scalar, lane);
    result.remainder = b.CreateInsertElement(result.remainder, one.remainder, i);
    result.quadrant = b.CreateInsertElement(result.quadrant, one.quadrant, i);
  }
  return result;
}

llvm::Function* reduction_in(llvm::Module& module, const MathBuilder& m) {
  const std::string name =
      "kiln.reduce_half_pi." + std::string(m.is_double() ? "f64x" : "f32x") + std::to_string(m.lanes());
  if (auto* function = module.getFunction(name)) return function;
  llvm::IRBuilder<> b(module.getContext());
  auto* result = llvm::StructType::get(m.with_lanes(b.getDoubleTy()), m.int_type());
  auto* type = llvm::FunctionType::get(result, {m.type()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::Cold);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  const MathBuilder inner(b, m.options(), m.type());
  Reduced reduced = reduce_lanes(inner, function->getArg(0));
  Value* pair = b.CreateInsertValue(llvm::PoisonValue::get(result), reduced.remainder, 0);
  b.CreateRet(b.CreateInsertValue(pair, reduced.quadrant, 1));
  return function;
}

} // namespace

Reduced exact_reduction(const MathBuilder& m, Value* magnitude) {
  if (m.options().inline_reduction) return reduce_lanes(m, magnitude);
  auto& b = m.ir();
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Function* function = reduction_in(*caller->getParent(), m);
  // It needs the same instruction set as the caller, or vectors would be passed differently.
  for (const char* key :
       {"target-cpu", "target-features", "prefer-vector-width", "min-legal-vector-width", "frame-pointer"})
    if (caller->hasFnAttribute(key)) function->addFnAttr(caller->getFnAttribute(key));
  function->setUWTableKind(caller->getUWTableKind());
  llvm::CallInst* call = b.CreateCall(function, {magnitude});
  return {b.CreateExtractValue(call, 0), b.CreateExtractValue(call, 1)};
}

} // namespace kiln::emit
