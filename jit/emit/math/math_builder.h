// Defines MathBuilder, a thin layer over IRBuilder for math on one floating-point type, scalar or vector.
#pragma once

#include <kiln/jit/emit/vector_math.h>

#include <functional>
#include <initializer_list>
#include <limits>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>
#include <utility>

namespace kiln::emit {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// All values are of `type` (float, double or a vector of them) or of `int_type` (integers of the same width,
// in as many lanes), except the i1 results of comparisons. Constants are splats.
class MathBuilder {
public:
  using Value = llvm::Value;

  MathBuilder(llvm::IRBuilderBase& builder, const MathOptions& options, llvm::Type* type);

  llvm::IRBuilderBase& ir() const { return b_; }
  const MathOptions& options() const { return options_; }
  llvm::Type* type() const { return type_; }
  llvm::Type* int_type() const { return int_type_; }
  bool is_double() const { return is_double_; }
  unsigned lanes() const { return lanes_; } // 0 for a scalar
  int mantissa() const { return is_double_ ? 52 : 23; }
  int bias() const { return is_double_ ? 1023 : 127; }
  llvm::Type* with_lanes(llvm::Type* element) const;
  MathBuilder wide() const; // the same lanes in f64

  Value* constant(double value) const;
  Value* integer(std::int64_t value) const;
  // Returns `single` if the type is f32, and `wide` if it is f64.
  double pick(double single, double wide) const { return is_double_ ? wide : single; }
  llvm::ArrayRef<double> pick(llvm::ArrayRef<double> single, llvm::ArrayRef<double> wide) const {
    return is_double_ ? wide : single;
  }

  Value* add(Value* x, Value* y) const { return b_.CreateFAdd(x, y); }
  Value* sub(Value* x, Value* y) const { return b_.CreateFSub(x, y); }
  Value* mul(Value* x, Value* y) const { return b_.CreateFMul(x, y); }
  Value* div(Value* x, Value* y) const { return b_.CreateFDiv(x, y); }
  Value* add(Value* x, double y) const { return add(x, constant(y)); }
  Value* sub(Value* x, double y) const { return sub(x, constant(y)); }
  Value* mul(Value* x, double y) const { return mul(x, constant(y)); }
  Value* neg(Value* x) const { return b_.CreateFNeg(x); }
  Value* abs(Value* x) const { return unary(llvm::Intrinsic::fabs, x); }
  Value* sqrt(Value* x) const { return unary(llvm::Intrinsic::sqrt, x); }
  Value* round(Value* x) const { return unary(llvm::Intrinsic::roundeven, x); }
  Value* unary(llvm::Intrinsic::ID id, Value* x) const { return b_.CreateUnaryIntrinsic(id, x); }

  // x * y + z with one rounding. (In f64 without FMA hardware, the result is within an ulp of that, and exact
  // if the product cancels.)
  Value* fma(Value* x, Value* y, Value* z) const;
  Value* fma(Value* x, double y, Value* z) const { return fma(x, constant(y), z); }
  // x * y + z with one rounding or two, whichever is fast.
  Value* mul_add(Value* x, Value* y, Value* z) const;
  // sum of c[i] x^i, by Horner's rule.
  Value* polynomial(llvm::ArrayRef<double> c, Value* x) const;

  Value* less(Value* x, double y) const { return b_.CreateFCmpOLT(x, constant(y)); }
  Value* greater(Value* x, double y) const { return b_.CreateFCmpOGT(x, constant(y)); }
  Value* equal(Value* x, double y) const { return b_.CreateFCmpOEQ(x, constant(y)); }
  Value* is_nan(Value* x) const { return b_.CreateFCmpUNO(x, x); }
  Value* select(Value* condition, Value* x, Value* y) const { return b_.CreateSelect(condition, x, y); }
  // Bounds, which leave NaN as it is.
  Value* at_most(Value* x, double bound) const {
    return select(b_.CreateFCmpOLT(constant(bound), x), constant(bound), x);
  }
  Value* at_least(Value* x, double bound) const {
    return select(b_.CreateFCmpOGT(constant(bound), x), constant(bound), x);
  }

  Value* bits(Value* x) const { return b_.CreateBitCast(x, int_type_); }
  Value* from_bits(Value* x) const { return b_.CreateBitCast(x, type_); }
  Value* sign_bit(Value* x) const; // the sign alone, as an integer
  Value* with_sign_of(Value* magnitude, Value* sign) const {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  Value* flip_sign(Value* x, Value* sign) const { return from_bits(b_.CreateXor(bits(x), sign)); }

  // The low bits of the result are an integral x + offset in two's complement, of a magnitude below 2^22
  // (f32) or 2^51 (f64).
  Value* integer_bits(Value* x, double offset = 0) const;
  // 2^n for an integral n, if that is a normal number.
  Value* power_of_two(Value* n) const;
  // n = x * factor rounded to an integer, and 2^n if that is a normal number: two instructions and a shift.
  struct Rounded {
    Value *n, *power;
  };
  Rounded round_product(Value* x, double factor) const; // |x * factor| below 2^22 (f32) or 2^51 (f64)
  // x * 2^n for an integral n, rounded once, denormal results included; |n| below twice the exponent range.
  Value* scale(Value* x, Value* n) const;

  // Whether `scale` is one instruction, which takes any n. Then an exponential need only bound its remainder,
  // and otherwise it must bound its argument at both ends.
  bool scales_any() const;
  // r clamped to +-bound; NaN becomes +-bound. Requires scales_any().
  Value* within(Value* r, double bound) const;
  // table[index % 16] in each lane, for f32. Requires scales_any().
  Value* look_up(llvm::ArrayRef<double> table, Value* index) const;
  // The greater or the smaller operand. If one of them is NaN, the other.
  Value* max(Value* x, Value* y) const { return min_max(x, y, llvm::Intrinsic::maxnum, 0b0101); }
  Value* min(Value* x, Value* y) const { return min_max(x, y, llvm::Intrinsic::minnum, 0b0100); }

  // Emits `slow` in a block that runs only if some lane of `condition` is true; then its results replace
  // `values`. The builder's block is split.
  llvm::SmallVector<Value*, 2> if_any(Value* condition, llvm::ArrayRef<Value*> values,
                                      const std::function<llvm::SmallVector<Value*, 2>()>& slow) const;

private:
  // Adding this number, 1.5 * 2^mantissa + offset, leaves an integer plus `offset` in the low bits of the
  // significand.
  double to_integer(double offset) const { return pick(0x1.8p23, 0x1.8p52) + offset; }
  using Native = std::function<Value*(llvm::ArrayRef<Value*>)>;
  // Applies `f` to each 512-bit register of the operands.
  Value* by_registers(llvm::ArrayRef<Value*> operands, const Native& f) const;
  bool fills_registers() const;
  Value* range(Value* x, Value* y, int control) const;
  Value* min_max(Value* x, Value* y, llvm::Intrinsic::ID id, int control) const;

  llvm::IRBuilderBase& b_;
  const MathOptions& options_;
  llvm::Type* type_;
  llvm::Type* int_type_;
  unsigned lanes_;
  bool is_double_;
};

} // namespace kiln::emit
