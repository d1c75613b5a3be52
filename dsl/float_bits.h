// Converts 16- and 8-bit floats to and from float and double, bit by bit: the same result on every host.
//
// Encoding rounds to nearest, ties to even, once, also from double. Past the largest finite value f16 and
// bf16 give infinity; f8e4m3 (which has none) and f8e5m2 saturate to the largest finite value, infinities
// included, as PTX's cvt.rn.satfinite does. NaN becomes the quiet NaN of the format: sign kept for f16 and
// bf16, 0x7f for both fp8. Decoding is exact. The CPU back end (jit/cpu/float_convert.h) emits the same
// conversions.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>

namespace kiln {

// `format` is one of F16, BF16, F8E4M3, F8E5M2; the bits sit at the low end of the integer.
std::uint16_t encode_float(DType format, double value);
double decode_float(DType format, std::uint16_t bits);

// What the formats are made of: the value of a normal number is 1.mantissa * 2^(exponent field - bias).
struct SmallFloat {
  int bits;
  int mantissa_bits;
  int bias;
  std::uint16_t greatest; // the encoding that overflow gives: infinity, or the largest finite value of fp8
  std::uint16_t nan;
  std::uint16_t first_special; // magnitudes from here on are infinity or NaN
  bool signed_nan;
};

constexpr SmallFloat small_float(DType format) {
  switch (format) {
  case DType::F16: return {16, 10, 15, 0x7c00, 0x7e00, 0x7c00, true};
  case DType::BF16: return {16, 7, 127, 0x7f80, 0x7fc0, 0x7f80, true};
  case DType::F8E4M3: return {8, 3, 7, 0x7e, 0x7f, 0x7f, false};
  case DType::F8E5M2: return {8, 2, 15, 0x7b, 0x7f, 0x7c, false};
  default: return {};
  }
}

} // namespace kiln
