// Tests the 16- and 8-bit float conversions of the host on every bit pattern and around every rounding
// boundary.
#include "test_seed.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <kiln/dsl/float_bits.h>
#include <limits>
#include <random>
#include <vector>

using namespace kiln;

namespace {

constexpr DType formats[] = {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2};

// Decodes by the definitions of the formats, independently of the code under test.
double plain_decode(DType format, unsigned bits) {
  struct Shape {
    int exponent_bits, mantissa_bits;
  };
  const Shape s = format == DType::F16      ? Shape{5, 10}
                  : format == DType::BF16   ? Shape{8, 7}
                  : format == DType::F8E4M3 ? Shape{4, 3}
                                            : Shape{5, 2};
  const int total = 1 + s.exponent_bits + s.mantissa_bits;
  const int exponent = static_cast<int>(bits >> s.mantissa_bits) & ((1 << s.exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << s.mantissa_bits) - 1);
  const double sign = bits >> (total - 1) ? -1 : 1;
  const int bias = (1 << (s.exponent_bits - 1)) - 1, top = (1 << s.exponent_bits) - 1;
  if (format == DType::F8E4M3) {
    if (exponent == top && mantissa == 7) return std::nan("");
  } else if (exponent == top) {
    return mantissa ? std::nan("") : sign * INFINITY;
  }
  const double fraction = mantissa * std::exp2(-s.mantissa_bits);
  return exponent ? sign * (1 + fraction) * std::exp2(exponent - bias)
                  : sign * fraction * std::exp2(1 - bias);
}

unsigned pattern_count(DType format) { return 1u << (8 * size_of(format)); }

bool same(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);
}

template <class T> float through(float value) { return static_cast<float>(T(value)); }
float through_struct(DType format, float value) {
  switch (format) {
  case DType::F16: return through<f16>(value);
  case DType::BF16: return through<bf16>(value);
  case DType::F8E4M3: return through<f8e4m3>(value);
  default: return through<f8e5m2>(value);
  }
}

} // namespace

TEST_CASE("every pattern of the small float formats decodes to its value and encodes back") {
  for (DType format : formats)
    for (unsigned bits = 0; bits < pattern_count(format); ++bits) {
      const double value = decode_float(format, static_cast<std::uint16_t>(bits));
      if (!same(value, plain_decode(format, bits)))
        FAIL(name(format) << " " << bits << " decodes to " << value);
      if (std::isnan(value)) {
        if (!std::isnan(decode_float(format, encode_float(format, value))))
          FAIL(name(format) << " loses NaN " << bits);
      } else if (!(std::isinf(value) && format == DType::F8E5M2) && encode_float(format, value) != bits) {
        FAIL(name(format) << " " << bits << " encodes back to " << encode_float(format, value));
      }
    }
  SUCCEED();
}

TEST_CASE("encoding rounds to nearest even around every boundary") {
  for (DType format : formats) {
    std::vector<double> finite; // the values by bit pattern, which is in ascending order from zero
    for (unsigned bits = 0; bits < pattern_count(format) / 2; ++bits)
      if (std::isfinite(plain_decode(format, bits))) finite.push_back(plain_decode(format, bits));
    const bool saturates = size_of(format) == 1;
    for (std::size_t i = 0; i < finite.size(); ++i) {
      const bool last = i + 1 == finite.size();
      const double step = last ? finite[i] - finite[i - 1] : finite[i + 1] - finite[i];
      const double middle = finite[i] + step / 2;
      const auto low = static_cast<unsigned>(i), high = last && saturates ? low : low + 1;
      const unsigned even = low % 2 == 0 ? low : high;
      for (unsigned sign : {0u, pattern_count(format) / 2}) {
        auto expect = [&](double value, unsigned expected) {
          const unsigned actual = encode_float(format, sign ? -value : value);
          if (actual != (expected | sign))
            FAIL(name(format) << " " << std::hexfloat << value << " gives " << actual << ", not "
                              << (expected | sign));
          const auto single = static_cast<float>(value);
          if (single == value &&
              through_struct(format, sign ? -single : single) !=
                  static_cast<float>(decode_float(format, static_cast<std::uint16_t>(expected | sign))))
            FAIL(name(format) << " " << value << " through the struct");
        };
        expect(middle, even);
        expect(std::nextafter(middle, 0), low);
        expect(std::nextafter(middle, INFINITY), high);
      }
    }
  }
  SUCCEED();
}

TEST_CASE("small float formats overflow as documented") {
  for (double value : {1e30, 1e300, std::numeric_limits<double>::max(), double(INFINITY)}) {
    CHECK(encode_float(DType::F16, value) == 0x7c00);
    CHECK(encode_float(DType::F8E4M3, value) == 0x7e);
    CHECK(encode_float(DType::F8E4M3, -value) == 0xfe);
    CHECK(encode_float(DType::F8E5M2, value) == 0x7b);
  }
  CHECK(encode_float(DType::BF16, 1e39) == 0x7f80);
  CHECK(encode_float(DType::F8E4M3, 465) == 0x7e);
  CHECK(encode_float(DType::F8E5M2, 61440) == 0x7b);
  CHECK(encode_float(DType::F8E4M3, NAN) == 0x7f);
  CHECK(encode_float(DType::F8E5M2, -NAN) == 0x7f);
  CHECK(encode_float(DType::BF16, -1e-320) == 0x8000);
}

TEST_CASE("small float structs agree with the double path on random floats") {
  const auto seed = test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 1 << 18; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    for (DType format : formats) {
      const double expected = decode_float(format, encode_float(format, value));
      if (!same(through_struct(format, value), expected))
        FAIL(name(format) << " of " << std::hexfloat << value);
    }
  }
  SUCCEED();
}
