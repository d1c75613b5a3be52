// Defines tensor maps, which cuTensorMapEncodeTiled makes and cp.async.bulk.tensor uses.
//
//   emulator::TensorMapFields f;
//   f.type = TensorMapType::BFloat16; f.rank = 2; f.address = x;
//   f.sizes = {columns, rows}; f.strides = {columns * 2}; // bytes, of dimensions 1 and up
//   f.box = {64, 128}; f.swizzle = TensorMapSwizzle::Bytes128;
//   const TensorMap map = encode(f); // 128 bytes, as a kernel's parameter or in global memory
//
// Dimension 0 is the one whose elements are adjacent in memory. The 128 bytes of a map are opaque; their
// layout is the emulator's own. The enumerators have the driver's values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln::emulator {

enum class TensorMapType : std::uint8_t {
  UInt8,
  UInt16,
  UInt32,
  Int32,
  UInt64,
  Int64,
  Float16,
  Float32,
  Float64,
  BFloat16,
  Float32Flushed, // subnormals become zero
  TFloat32,       // all bits are copied; a multiplication ignores the low ones
  TFloat32Flushed,
};
enum class TensorMapInterleave : std::uint8_t { None, Bytes16, Bytes32 };
enum class TensorMapSwizzle : std::uint8_t { None, Bytes32, Bytes64, Bytes128 };
enum class TensorMapPromotion : std::uint8_t { None, Bytes64, Bytes128, Bytes256 };
enum class TensorMapFill : std::uint8_t { Zero, NaN };

struct TensorMapFields {
  TensorMapType type = TensorMapType::UInt8;
  std::uint32_t rank = 1;               // 1 to 5
  std::uint64_t address = 0;            // a multiple of 16
  std::array<std::uint64_t, 5> sizes{}; // elements, 1 to 2^32
  // In bytes, for dimensions 1 to rank - 1; multiples of 16 below 2^40.
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};                             // elements, 1 to 256
  std::array<std::uint32_t, 5> element_strides = {1, 1, 1, 1, 1}; // 1 to 8
  TensorMapInterleave interleave = TensorMapInterleave::None;
  TensorMapSwizzle swizzle = TensorMapSwizzle::None;
  TensorMapPromotion promotion = TensorMapPromotion::None; // no effect in the emulator
  TensorMapFill fill = TensorMapFill::Zero;                // value of elements that are out of bounds
};

struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes{};
};

std::uint32_t bytes_of(TensorMapType type);
// Describes why the driver refuses the fields; empty if it accepts them.
std::string problem(const TensorMapFields& fields);
TensorMap encode(const TensorMapFields& fields); // throws UserError where there is a problem
TensorMapFields decode(const TensorMap& map);    // of any bytes; the caller checks problem()

// tensormap.replace.tile.FIELD, with `value` as PTX numbers it. False if the field or dimension does not
// exist.
bool replace_field(TensorMap& map, const std::string& field, std::uint32_t dimension, std::uint64_t value);

} // namespace kiln::emulator
