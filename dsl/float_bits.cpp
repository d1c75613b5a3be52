// Implements the conversions of bf16, f16, f8e4m3 and f8e5m2 in integer arithmetic.
#include <kiln/dsl/error.h>
#include <kiln/dsl/float_bits.h>

#include <bit>
#include <cmath>
#include <limits>

namespace kiln {

namespace {

// value / 2^shift, rounded to nearest, ties to even.
std::uint64_t shift_right_rounded(std::uint64_t value, int shift) {
  if (shift > 62) return 0; // value < 2^53, so the result is far below one half
  const std::uint64_t half = std::uint64_t{1} << (shift - 1), low = value & ((half << 1) - 1);
  const std::uint64_t floor = value >> shift;
  return floor + (low > half || (low == half && (floor & 1)) ? 1 : 0);
}

std::uint16_t encode(const SmallFloat& f, double value) {
  const auto word = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 63) << (f.bits - 1));
  const std::uint64_t magnitude = word & ~(std::uint64_t{1} << 63);
  constexpr std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  if (magnitude > infinity) return f.signed_nan ? sign | f.nan : f.nan;
  // The significand includes the implicit bit and counts units of 2^(exponent - 52). Denormal doubles, which
  // have none, are too small for every format and round to zero.
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const std::uint64_t significand = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
  const int least_exponent = 1 - f.bias, drop = 52 - f.mantissa_bits;
  std::uint64_t encoded = 0;
  if (exponent < least_exponent) {
    encoded = shift_right_rounded(significand, drop + least_exponent - exponent);
  } else { // a carry out of the mantissa correctly increments the exponent field
    const std::uint64_t field = static_cast<std::uint64_t>(exponent + f.bias - 1);
    encoded = (field << f.mantissa_bits) + shift_right_rounded(significand, drop);
  }
  return sign | static_cast<std::uint16_t>(encoded < f.greatest ? encoded : f.greatest);
}

double decode(const SmallFloat& f, std::uint16_t bits) {
  const unsigned magnitude = bits & ((1u << (f.bits - 1)) - 1);
  const double sign = (bits >> (f.bits - 1)) & 1 ? -1 : 1;
  const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  if (magnitude >= f.first_special) {
    const bool infinite = mantissa == 0 && f.greatest != 0x7e;
    const double special =
        infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return std::copysign(special, sign);
  }
  const unsigned significand = field ? mantissa | 1u << f.mantissa_bits : mantissa;
  return sign * std::ldexp(significand, (field ? field : 1) - f.bias - f.mantissa_bits);
}

} // namespace

std::uint16_t encode_float(DType format, double value) {
  const SmallFloat f = small_float(format);
  internal_check(f.bits != 0, "encode_float takes a 16- or 8-bit float format");
  return encode(f, value);
}

double decode_float(DType format, std::uint16_t bits) {
  const SmallFloat f = small_float(format);
  internal_check(f.bits != 0, "decode_float takes a 16- or 8-bit float format");
  return decode(f, bits);
}

f16::f16(float value) : bits(encode(small_float(DType::F16), value)) {}
f16::operator float() const { return static_cast<float>(decode(small_float(DType::F16), bits)); }

bf16::bf16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffff) > 0x7f800000)
    bits = static_cast<std::uint16_t>((word >> 31) << 15 | 0x7fc0);
  else
    bits = static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}
bf16::operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

f8e4m3::f8e4m3(float value) : bits(static_cast<std::uint8_t>(encode(small_float(DType::F8E4M3), value))) {}
f8e4m3::operator float() const { return static_cast<float>(decode(small_float(DType::F8E4M3), bits)); }

f8e5m2::f8e5m2(float value) : bits(static_cast<std::uint8_t>(encode(small_float(DType::F8E5M2), value))) {}
f8e5m2::operator float() const { return static_cast<float>(decode(small_float(DType::F8E5M2), bits)); }

} // namespace kiln
