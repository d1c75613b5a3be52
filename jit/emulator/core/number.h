// Converts the small floating-point formats of PTX (f16, bf16, fp8 and tf32) to and from double, exactly.
//
// A double holds every value of them, and every sum or product of two is either exact in double or made so by
// rounding to odd (the last bit says that something was cut off), after which one more rounding is the only
// one.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln::emulator {

enum class Rounding : std::uint8_t { Nearest, Zero, Down, Up, NearestAway };

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity; // e4m3 has none: S.1111.111 is NaN, the rest of that exponent are numbers
  std::uint32_t nan; // the one that conversions give
};
inline constexpr Format format_f16{5, 10, true, 0x7fff};
inline constexpr Format format_bf16{8, 7, true, 0x7fff};
inline constexpr Format format_e4m3{4, 3, false, 0x7f};
inline constexpr Format format_e5m2{5, 2, true, 0x7f};
inline constexpr Format format_tf32{8, 10, true, 0x3ffff}; // shifted up by 13, it is an f32

// Rounds once. `saturate_finite`: what exceeds the largest number becomes it.
constexpr std::uint32_t encode(double value, const Format& f, Rounding rounding,
                               bool saturate_finite = false) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63);
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t(1) << 52) - 1);
  const int width = f.exponent_bits + f.mantissa_bits;
  const std::uint32_t sign_bit = sign << width;
  if (biased == 0x7ff && fraction) return f.nan;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const std::uint32_t largest = f.has_infinity ? infinity - 1 : f.nan - 1;
  const std::uint32_t beyond = saturate_finite ? largest : f.has_infinity ? infinity : f.nan;
  if (biased == 0x7ff) return sign_bit | beyond;
  if (biased == 0 && fraction == 0) return sign_bit;
  // value = significand * 2^(exponent - 52)
  const std::uint64_t significand = biased ? fraction | std::uint64_t(1) << 52 : fraction;
  const int exponent = biased ? biased - 1023 : -1022;
  const int lowest = 1 - bias; // of normal numbers
  int drop = 52 - f.mantissa_bits + (exponent < lowest ? lowest - exponent : 0);
  std::uint64_t kept = drop < 64 ? significand >> drop : 0;
  const std::uint64_t rest = drop < 64 ? significand & ((std::uint64_t(1) << drop) - 1) : significand;
  bool up = false;
  if (rest) {
    if (rounding == Rounding::Nearest || rounding == Rounding::NearestAway) {
      if (drop < 64) {
        const std::uint64_t half = std::uint64_t(1) << (drop - 1);
        up = rest > half || (rest == half && (rounding == Rounding::NearestAway || (kept & 1)));
      }
    } else {
      up = rounding == (sign ? Rounding::Down : Rounding::Up);
    }
  }
  kept += up;
  // A carry out of the significand raises the exponent by itself.
  std::uint64_t result = kept;
  if (exponent >= lowest) result += static_cast<std::uint64_t>(exponent - lowest) << f.mantissa_bits;
  if (result > largest) {
    // Directed away from infinity, what is too large is the largest number.
    const bool to_largest = rounding == Rounding::Zero || (rounding == Rounding::Down && !sign) ||
                            (rounding == Rounding::Up && sign);
    return sign_bit | (to_largest ? largest : beyond);
  }
  return sign_bit | static_cast<std::uint32_t>(result);
}

constexpr double decode(std::uint32_t bits, const Format& f) {
  const int width = f.exponent_bits + f.mantissa_bits;
  const bool sign = bits >> width & 1;
  const std::uint32_t magnitude = bits & ((1u << width) - 1);
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t fraction = magnitude & ((1u << f.mantissa_bits) - 1);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const std::uint64_t sign_bit = std::uint64_t(sign) << 63;
  if (f.has_infinity ? exponent == (1 << f.exponent_bits) - 1 : magnitude == f.nan) {
    if (fraction || !f.has_infinity) return std::bit_cast<double>(sign_bit | 0x7ff8000000000000);
    return std::bit_cast<double>(sign_bit | 0x7ff0000000000000);
  }
  if (exponent) {
    const std::uint64_t e = static_cast<std::uint64_t>(exponent - bias + 1023);
    return std::bit_cast<double>(sign_bit | e << 52 | std::uint64_t(fraction) << (52 - f.mantissa_bits));
  }
  const double unit =
      std::bit_cast<double>(static_cast<std::uint64_t>(1 - bias - f.mantissa_bits + 1023) << 52);
  const double value = static_cast<double>(fraction) * unit;
  return sign ? -value : value;
}

// a + b with its last bit odd where it is not exact, so that rounding to any narrower format is right.
inline double sum_to_odd(double a, double b) {
  const double s = a + b;
  if (!(std::fabs(s) <= 1.7976931348623157e308)) return s;
  const double t = s - a;
  const double error = (a - (s - t)) + (b - t); // exact: Knuth's two-sum
  if (error == 0) return s;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(s);
  if (bits & 1) return s;
  // Even: the neighbour on the error's side is odd.
  const bool away = (error > 0) == (s > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

inline float from_f16(std::uint16_t h) { // exact, and quick enough to vectorise
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t magnitude = h & 0x7fff;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t special =
      magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(special | sign);
}
inline std::uint16_t to_f16(float value) { // to nearest even
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // Subnormal results: adding 0.5 makes the float unit round where f16 does.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude < 0x38800000 ? magnitude : 0) + 0.5f) -
      0x3f000000;
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  std::uint32_t result = magnitude < 0x38800000 ? small : normal;
  result = magnitude >= 0x477ff000 ? 0x7c00 : result;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000 ? 0x7fff : result | sign);
}
inline float from_bf16(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }
inline std::uint16_t to_bf16(float value) { // to nearest even
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

} // namespace kiln::emulator
