// Computes one warp's part of a wgmma.mma_async.
#include "wgmma.h"

#include "alu.h"
#include "block.h"
#include "number.h"

#include <array>
#include <cstring>

namespace kiln::emulator {
namespace {

using ptx::Type;

template <const Format& format> const std::array<float, 256>& table() {
  static const auto values = [] {
    std::array<float, 256> t{};
    for (std::uint32_t k = 0; k < 256; ++k)
      t[k] = static_cast<float>(decode(k, format));
    return t;
  }();
  return values;
}

float number(Type t, std::uint32_t bits) {
  switch (t) {
  case Type::F16: return from_f16(static_cast<std::uint16_t>(bits));
  case Type::BF16: return from_bf16(static_cast<std::uint16_t>(bits));
  case Type::E4M3: return table<format_e4m3>()[bits & 0xff];
  case Type::E5M2: return table<format_e5m2>()[bits & 0xff];
  default: return std::bit_cast<float>(bits & 0xffffe000); // tf32
  }
}
std::int32_t integer(Type t, std::uint32_t bits) {
  return t == Type::S8 ? static_cast<std::int8_t>(bits) : static_cast<std::int32_t>(bits & 0xff);
}
int bytes_of(Type t) { return t == Type::TF32 ? 4 : bits_of(t) / 8; }

std::uint32_t element(const std::uint8_t* at, int bytes) {
  std::uint32_t v = 0;
  std::memcpy(&v, at, static_cast<std::size_t>(bytes));
  return v;
}

constexpr int rows = 16;

} // namespace

void Multiplication::gather(std::vector<std::uint8_t>& to) const {
  to.resize((a_chunks.size() + b_chunks.size()) * 16);
  const std::uint8_t* shared = warp->block.shared.data;
  std::uint8_t* at = to.data();
  for (const auto* chunks : {&a_chunks, &b_chunks})
    for (const std::uint32_t offset : *chunks) {
      std::memcpy(at, shared + offset, 16);
      at += 16;
    }
}

void Multiplication::poison() { gather(before_); } // the results are registers, whose uses warp.cpp checks

// Fills a[k][row] and b[k][column] with get(type, bits).
template <class T, class Get> void Multiplication::unpack(T* to_a, T* to_b, const Get& get) const {
  std::vector<std::uint8_t> chunks;
  gather(chunks);
  const std::uint8_t* at = chunks.data();
  auto matrix = [&](T* to, Type t, int extent, bool by_columns) {
    const int size = bytes_of(t), per_chunk = 16 / size;
    if (by_columns) { // a chunk holds elements of several rows or columns, for one k
      for (int c = 0; c < extent / per_chunk; ++c)
        for (int k = 0; k < depth; ++k, at += 16)
          for (int e = 0; e < per_chunk; ++e)
            to[k * extent + c * per_chunk + e] = get(t, element(at + e * size, size));
    } else {
      for (int r = 0; r < extent; ++r)
        for (int k = 0; k < depth; k += per_chunk, at += 16)
          for (int e = 0; e < per_chunk; ++e)
            to[(k + e) * extent + r] = get(t, element(at + e * size, size));
    }
  };
  if (operands.empty()) {
    matrix(to_a, a, rows, a_by_columns);
  } else { // register 2j+i of a lane holds row lane/4 + 8i, columns p (lane%4) + 4p j + 0..p-1
    const int size = bytes_of(a), p = 4 / size;
    const std::uint32_t mask = size == 4 ? ~0u : (1u << (8 * size)) - 1;
    for (int x = 0; x < 4; ++x) {
      const auto* r =
          reinterpret_cast<const std::uint32_t*>(frame->registers + operands[static_cast<std::size_t>(x)]);
      for (int l = 0; l < warp_size; ++l)
        for (int e = 0; e < p; ++e)
          to_a[(p * (l % 4) + 4 * p * (x / 2) + e) * rows + l / 4 + 8 * (x % 2)] =
              get(a, r[l] >> (8 * size * e) & mask);
    }
  }
  matrix(to_b, b, columns, b_by_columns);
}

void Multiplication::read(Mask lanes) {
  if (!before_.empty()) {
    std::vector<std::uint8_t> now;
    gather(now);
    if (now != before_)
      warp->execution.add_finding(
          Fault::InFlight, *warp, *instruction, std::countr_zero(lanes),
          "reads shared memory that changed while it was under way: nothing may write there before "
          "a wgmma.wait_group for it");
  }
  const auto na = static_cast<std::size_t>(depth * rows), nb = static_cast<std::size_t>(depth * columns);
  if (d == Type::S32) {
    a_integers_.resize(na);
    b_integers_.resize(nb);
    unpack(a_integers_.data(), b_integers_.data(), integer);
    return;
  }
  a_.resize(na);
  b_.resize(nb);
  unpack(a_.data(), b_.data(), number);
  if (negate_a != negate_b)
    for (float& v : a_)
      v = -v;
}

void Multiplication::land(Block&, Mask) {
  auto reg = [&](std::size_t n) { return frame->registers + results[n]; };
  const auto width = static_cast<std::size_t>(columns);
  // Element 4n+2i+j of a lane is in row lane/4 + 8i and column 8n + 2 (lane%4) + j.
  if (d == Type::S32) {
    for (std::size_t n = 0; n < results.size(); ++n) {
      auto* out = reinterpret_cast<std::int32_t*>(reg(n));
      for (int l = 0; l < warp_size; ++l) {
        const auto row = static_cast<std::size_t>(l / 4) + 8 * (n / 2 % 2),
                   column = 8 * (n / 4) + 2 * static_cast<std::size_t>(l % 4) + n % 2;
        std::int64_t sum = add ? out[l] : 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k)
          sum += static_cast<std::int64_t>(a_integers_[k * rows + row]) * b_integers_[k * width + column];
        if (saturate)
          sum = sum > 0x7fffffff                  ? 0x7fffffff
                : sum < -std::int64_t(0x80000000) ? -std::int64_t(0x80000000)
                                                  : sum;
        out[l] = static_cast<std::int32_t>(sum);
      }
    }
    return;
  }
  std::vector<float> sums(rows * width);
  const bool half = d == Type::F16;
  auto each = [&](auto f) { // f(register, lane, index in sums, whether the upper half)
    for (std::size_t n = 0; n < results.size(); ++n)
      for (int l = 0; l < warp_size; ++l) {
        const std::size_t row = static_cast<std::size_t>(l / 4) + 8 * (half ? n % 2 : n / 2 % 2),
                          column = 8 * (half ? n / 2 : n / 4) + 2 * static_cast<std::size_t>(l % 4);
        if (half) {
          f(n, l, row * width + column, false);
          f(n, l, row * width + column + 1, true);
        } else {
          f(n, l, row * width + column + n % 2, false);
        }
      }
  };
  if (add)
    each([&](std::size_t n, int l, std::size_t at, bool upper) {
      const std::uint32_t v = reinterpret_cast<const std::uint32_t*>(reg(n))[l];
      sums[at] = half ? from_f16(static_cast<std::uint16_t>(upper ? v >> 16 : v)) : std::bit_cast<float>(v);
    });
  multiply_add_f32(sums.data(), a_.data(), b_.data(), rows, columns, depth);
  each([&](std::size_t n, int l, std::size_t at, bool upper) {
    std::uint32_t& v = reinterpret_cast<std::uint32_t*>(reg(n))[l];
    if (!half)
      v = std::bit_cast<std::uint32_t>(sums[at]);
    else
      v = upper ? (v & 0xffff) | static_cast<std::uint32_t>(to_f16(sums[at])) << 16
                : (v & 0xffff0000) | to_f16(sums[at]);
  });
}

void Multiplication::waited() {
  for (const std::uint32_t r : results)
    --frame->watch(r).accumulating;
  for (const std::uint32_t r : operands)
    --frame->watch(r).feeding;
  --frame->in_flight;
}

} // namespace kiln::emulator
