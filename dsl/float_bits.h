// Converts 16- and 8-bit floats to and from double, with the same bits on every host.
//
// Encoding rounds once, to nearest with ties to even, also from double. Values above the largest finite one
// become infinity in f16 and bf16. In f8e4m3, which has no infinity, and in f8e5m2 they saturate to the
// largest finite value, infinities included, as in PTX's cvt.rn.satfinite. A NaN becomes the quiet NaN of the
// format: f16 and bf16 keep its sign, both fp8 formats use 0x7f. Decoding is exact. The code for CPUs
// (jit/cpu/float_convert.h) performs the same conversions.
#pragma once

#include <kiln/dsl/dtype.h>

#include <cstdint>

namespace kiln {

// Encode and decode one number. `format` is F16, BF16, F8E4M3 or F8E5M2, otherwise they throw an
// InternalError. The bits are in the low end of the integer.
std::uint16_t encode_float(DType format, double value);
double decode_float(DType format, std::uint16_t bits);

// The parameters of a format. The value of a normal number is 1.mantissa * 2^(exponent field - bias).
struct SmallFloat {
  int bits;
  int mantissa_bits;
  int bias;
  std::uint16_t greatest; // the encoding of overflow: infinity, or the largest finite value of fp8
  std::uint16_t nan;
  std::uint16_t first_special; // magnitudes from this one on are infinity or NaN
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
