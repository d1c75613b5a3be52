// Encodes and decodes tensor maps, and checks their fields as the driver does.
#include "tensor_map.h"

#include <algorithm>
#include <cstring>
#include <kiln/dsl/error.h>

namespace kiln::emulator {
namespace {

// The layout of a map. A map that was never written is all zero.
struct Raw {
  std::uint64_t address;
  std::uint8_t type, rank_less_one, interleave, swizzle, atomicity, fill, promotion, unused;
  std::uint64_t sizes[5], strides[4];
  std::uint16_t box[5];
  std::uint8_t element_strides[5];
  std::uint8_t rest[25];
};
static_assert(sizeof(Raw) == 128);

// PTX numbers the types from .f32.ftz to .bf16 in another order than the driver.
TensorMapType from_ptx(std::uint64_t n) {
  return n == 8    ? TensorMapType::Float32Flushed
         : n == 9  ? TensorMapType::Float64
         : n == 10 ? TensorMapType::BFloat16
                   : static_cast<TensorMapType>(std::min<std::uint64_t>(n, 255));
}

bool is_float(TensorMapType t) { return t >= TensorMapType::Float16; }

} // namespace

std::uint32_t bytes_of(TensorMapType type) {
  switch (type) {
  case TensorMapType::UInt8: return 1;
  case TensorMapType::UInt16:
  case TensorMapType::Float16:
  case TensorMapType::BFloat16: return 2;
  case TensorMapType::UInt64:
  case TensorMapType::Int64:
  case TensorMapType::Float64: return 8;
  default: return 4;
  }
}

std::string problem(const TensorMapFields& f) {
  auto number = [](std::uint64_t n) { return std::to_string(n); };
  auto of = [&](const char* what, std::size_t d, std::uint64_t n) {
    return std::string(what) + " of dimension " + number(d) + " is " + number(n);
  };
  if (f.type > TensorMapType::TFloat32Flushed)
    return "the element type " + number(static_cast<std::uint64_t>(f.type)) +
           " is not known; packed types of 4 and 6 bits are not emulated";
  if (f.rank < 1 || f.rank > 5) return "the rank is " + number(f.rank) + "; it is 1 to 5";
  if (f.interleave > TensorMapInterleave::Bytes32 || f.swizzle > TensorMapSwizzle::Bytes128 ||
      f.promotion > TensorMapPromotion::Bytes256 || f.fill > TensorMapFill::NaN)
    return "the interleave, swizzle, promotion or fill is none that sm_90 has";
  const bool interleaved = f.interleave != TensorMapInterleave::None,
             by_32 = f.interleave == TensorMapInterleave::Bytes32;
  if (interleaved && f.rank < 3) return "the rank is " + number(f.rank) + "; interleaved maps have 3 to 5";
  const std::uint64_t align = by_32 ? 32 : 16;
  if (f.address % align) return "the global address is no multiple of " + number(align);
  if (!f.address) return "the global address is null";
  const std::uint64_t size = bytes_of(f.type);
  for (std::size_t d = 0; d < f.rank; ++d) {
    if (!f.sizes[d] || f.sizes[d] > std::uint64_t(1) << 32)
      return of("the size", d, f.sizes[d]) + "; it is 1 to 2^32";
    if (!f.box[d] || f.box[d] > 256) return of("the box", d, f.box[d]) + "; it is 1 to 256";
    if (!f.element_strides[d] || f.element_strides[d] > 8)
      return of("the element stride", d, f.element_strides[d]) + "; it is 1 to 8";
    if (d + 1 == f.rank) break;
    if (f.strides[d] % align)
      return of("the stride", d + 1, f.strides[d]) + "; it is a multiple of " + number(align);
    if (f.strides[d] >> 40) return of("the stride", d + 1, f.strides[d]) + "; it is less than 2^40";
  }
  const std::uint64_t inner = f.box[0] * size;
  if (!interleaved && inner % 16)
    return "a row of the box has " + number(inner) + " bytes; it is a multiple of 16";
  const std::uint64_t span =
      f.swizzle == TensorMapSwizzle::None ? 0 : std::uint64_t(16) << static_cast<int>(f.swizzle);
  if (!interleaved && span && inner > span)
    return "a row of the box has " + number(inner) + " bytes; with a swizzle of " + number(span) +
           " it has at most that";
  if (by_32 && f.swizzle != TensorMapSwizzle::Bytes32)
    return "an interleave of 32 bytes takes a swizzle of 32 bytes";
  if (f.fill == TensorMapFill::NaN && !is_float(f.type)) return "NaN fills floating-point types only";
  return "";
}

TensorMap encode(const TensorMapFields& f) {
  if (const std::string wrong = problem(f); !wrong.empty()) throw UserError("tensor map: " + wrong);
  Raw raw{};
  raw.address = f.address;
  raw.type = static_cast<std::uint8_t>(f.type);
  raw.rank_less_one = static_cast<std::uint8_t>(f.rank - 1);
  raw.interleave = static_cast<std::uint8_t>(f.interleave);
  raw.swizzle = static_cast<std::uint8_t>(f.swizzle);
  raw.fill = static_cast<std::uint8_t>(f.fill);
  raw.promotion = static_cast<std::uint8_t>(f.promotion);
  for (std::size_t d = 0; d < f.rank; ++d) {
    raw.sizes[d] = f.sizes[d];
    if (d + 1 < f.rank) raw.strides[d] = f.strides[d];
    raw.box[d] = static_cast<std::uint16_t>(f.box[d]);
    raw.element_strides[d] = static_cast<std::uint8_t>(f.element_strides[d]);
  }
  TensorMap map;
  std::memcpy(map.bytes.data(), &raw, sizeof raw);
  return map;
}

TensorMapFields decode(const TensorMap& map) {
  Raw raw;
  std::memcpy(&raw, map.bytes.data(), sizeof raw);
  TensorMapFields f;
  f.type = static_cast<TensorMapType>(raw.type);
  f.rank = raw.rank_less_one + 1u;
  f.address = raw.address;
  for (std::size_t d = 0; d < 5; ++d) {
    f.sizes[d] = raw.sizes[d];
    if (d < 4) f.strides[d] = raw.strides[d];
    f.box[d] = raw.box[d];
    f.element_strides[d] = raw.element_strides[d];
  }
  f.interleave = static_cast<TensorMapInterleave>(raw.interleave);
  f.swizzle = static_cast<TensorMapSwizzle>(raw.swizzle);
  f.promotion = static_cast<TensorMapPromotion>(raw.promotion);
  f.fill = static_cast<TensorMapFill>(raw.fill);
  return f;
}

bool replace_field(TensorMap& map, const std::string& field, std::uint32_t dimension, std::uint64_t value) {
  Raw raw;
  std::memcpy(&raw, map.bytes.data(), sizeof raw);
  const auto small = static_cast<std::uint8_t>(std::min<std::uint64_t>(value, 255));
  if (dimension > (field == "global_stride" ? 3u : 4u)) return false;
  if (field == "global_address")
    raw.address = value;
  else if (field == "rank")
    raw.rank_less_one = small;
  else if (field == "box_dim")
    raw.box[dimension] = static_cast<std::uint16_t>(std::min<std::uint64_t>(value, 65535));
  else if (field == "global_dim")
    raw.sizes[dimension] = value;
  else if (field == "global_stride")
    raw.strides[dimension] = value;
  else if (field == "element_stride")
    raw.element_strides[dimension] = small;
  else if (field == "elemtype")
    raw.type = static_cast<std::uint8_t>(from_ptx(value));
  else if (field == "interleave_layout")
    raw.interleave = small;
  else if (field == "swizzle_mode")
    raw.swizzle = small;
  else if (field == "swizzle_atomicity")
    raw.atomicity = small;
  else if (field == "fill_mode")
    raw.fill = small;
  else
    return false;
  std::memcpy(map.bytes.data(), &raw, sizeof raw);
  return true;
}

} // namespace kiln::emulator
