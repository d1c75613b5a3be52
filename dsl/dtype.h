// Defines the dtypes (element types of tiles) and the C++ types that name them.
#pragma once

#include <kiln/dsl/api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

KILN_API_BEGIN
namespace kiln {

// The dtype of an element: bool, integers by sign and width in bits, and floats. F8E4M3 and F8E5M2 are the
// 8-bit floats of the OCP specification: one with 4 exponent and 3 mantissa bits and without infinities, the
// other with 5 and 2 bits.
enum class DType : std::uint8_t {
  Bool,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F16,
  BF16,
  F32,
  F64,
  F8E4M3,
  F8E5M2,
};

enum class DTypeClass : std::uint8_t { Bool, Signed, Unsigned, Float };

// The properties of a dtype. `bytes` is its size in memory; a bool takes one byte, which is 0 or 1.
// `mantissa_bits` does not count the implicit leading bit, and is zero for integers.
struct DTypeInfo {
  std::string_view name;
  DTypeClass cls;
  int bytes;
  int mantissa_bits;
};

inline constexpr DTypeInfo dtype_table[] = {
    {"bool", DTypeClass::Bool, 1, 0},    {"i8", DTypeClass::Signed, 1, 0},
    {"i16", DTypeClass::Signed, 2, 0},   {"i32", DTypeClass::Signed, 4, 0},
    {"i64", DTypeClass::Signed, 8, 0},   {"u8", DTypeClass::Unsigned, 1, 0},
    {"u16", DTypeClass::Unsigned, 2, 0}, {"u32", DTypeClass::Unsigned, 4, 0},
    {"u64", DTypeClass::Unsigned, 8, 0}, {"f16", DTypeClass::Float, 2, 10},
    {"bf16", DTypeClass::Float, 2, 7},   {"f32", DTypeClass::Float, 4, 23},
    {"f64", DTypeClass::Float, 8, 52},   {"f8e4m3", DTypeClass::Float, 1, 3},
    {"f8e5m2", DTypeClass::Float, 1, 2},
};
inline constexpr int dtype_count = sizeof(dtype_table) / sizeof(dtype_table[0]);

constexpr const DTypeInfo& info(DType t) { return dtype_table[static_cast<int>(t)]; }
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr int size_of(DType t) { return info(t).bytes; }
constexpr bool is_float(DType t) { return info(t).cls == DTypeClass::Float; }
constexpr bool is_signed(DType t) { return info(t).cls == DTypeClass::Signed; }
constexpr bool is_unsigned(DType t) { return info(t).cls == DTypeClass::Unsigned; }
constexpr bool is_integer(DType t) { return is_signed(t) || is_unsigned(t); }

// The 16- and 8-bit floats on the host. They only store bits; arithmetic on them happens in kernels:
//
//   - the constructors round to nearest, ties to even (see float_bits.h);
//   - the conversions to float and double are exact;
//   - comparisons compare the values: +0 equals -0, and a NaN equals nothing.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value);
  explicit operator float() const;
  explicit operator double() const { return float(*this); }
  friend bool operator==(bf16 a, bf16 b) { return float(a) == float(b); }
  friend std::partial_ordering operator<=>(bf16 a, bf16 b) { return float(a) <=> float(b); }
};
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
  explicit operator double() const { return float(*this); }
  friend bool operator==(f16 a, f16 b) { return float(a) == float(b); }
  friend std::partial_ordering operator<=>(f16 a, f16 b) { return float(a) <=> float(b); }
};
struct f8e4m3 {
  std::uint8_t bits = 0;
  f8e4m3() = default;
  explicit f8e4m3(float value);
  explicit operator float() const;
  explicit operator double() const { return float(*this); }
  friend bool operator==(f8e4m3 a, f8e4m3 b) { return float(a) == float(b); }
  friend std::partial_ordering operator<=>(f8e4m3 a, f8e4m3 b) { return float(a) <=> float(b); }
};
struct f8e5m2 {
  std::uint8_t bits = 0;
  f8e5m2() = default;
  explicit f8e5m2(float value);
  explicit operator float() const;
  explicit operator double() const { return float(*this); }
  friend bool operator==(f8e5m2 a, f8e5m2 b) { return float(a) == float(b); }
  friend std::partial_ordering operator<=>(f8e5m2 a, f8e5m2 b) { return float(a) <=> float(b); }
};

namespace detail {
template <class T> struct DTypeOf;
template <> struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};
template <> struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::I8;
};
template <> struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::I16;
};
template <> struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::I32;
};
template <> struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::I64;
};
template <> struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::U8;
};
template <> struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::U16;
};
template <> struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::U32;
};
template <> struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::U64;
};
template <> struct DTypeOf<f16> {
  static constexpr DType value = DType::F16;
};
template <> struct DTypeOf<bf16> {
  static constexpr DType value = DType::BF16;
};
template <> struct DTypeOf<float> {
  static constexpr DType value = DType::F32;
};
template <> struct DTypeOf<double> {
  static constexpr DType value = DType::F64;
};
template <> struct DTypeOf<f8e4m3> {
  static constexpr DType value = DType::F8E4M3;
};
template <> struct DTypeOf<f8e5m2> {
  static constexpr DType value = DType::F8E5M2;
};
} // namespace detail

// The dtype that a C++ type stands for; const is ignored: dtype_of<const float> is DType::F32.
template <class T> inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;
// The C++ types that stand for a dtype: bool, std::int8_t to std::uint64_t, float, double and the floats
// above.
template <class T>
concept ElementType = requires { detail::DTypeOf<std::remove_cv_t<T>>::value; };
// Whether T is f16, bf16, f8e4m3 or f8e5m2, the floats that C++ itself does not have.
template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                                       std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

} // namespace kiln
KILN_API_END
