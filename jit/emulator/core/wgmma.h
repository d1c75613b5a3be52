// Declares one warp's part of a wgmma.mma_async: 16 of the 64 rows of D += A B.
//
// Each warp of the warpgroup multiplies its own rows when its operation lands. The operations of a warp land
// in order, those of different warps at different moments: they share only the operands in shared memory.
//
// A matrix in shared memory consists of 16-byte chunks, and a descriptor says where they are (in bytes, from
// its start address; s is 1, 2, 4 or 8 chunks for no swizzle, 32, 64 and 128 bytes; L and S are its leading
// and stride offsets):
//   K-major:  row r, chunk c of its 2:      r%8 * 16 s + r/8 * S + c * (s == 1 ? L : 16)
//   MN-major: chunk c of 8 rows, element k: s == 1: c * S + k%8 * 16 + k/8 * L
//                                           else:   c%s * 16 + c/s * L + k%8 * 16 s + k/8 * S
// Then bits 4 to 6 of the address are combined by exclusive or with bits 7 to 9 minus the base offset; s
// decides how many of them.
//
// f32 results start from D and add exact products, one fused multiply-add after the other in the order of k.
// The hardware adds several products at once and truncates low bits in an order that is not documented, so
// its results differ within that error. f16 results are sums in f32, rounded once for each instruction. The
// low 13 bits of tf32 operands are ignored.
//
// Until its group is waited for, every other use of a register of D or A is reported (Warp::touch_registers).
// This includes a plain mov: an assembler may treat it as a new name of the register, the PTX manual does
// not.
#pragma once

#include "async_operation.h"
#include "warp.h"

namespace kiln::emulator {

struct Descriptor {
  std::uint64_t start, leading, stride, base_offset;
  int chunks; // in a row of the swizzle pattern: 1, 2, 4, 8
  explicit Descriptor(std::uint64_t bits)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
        base_offset(bits >> 49 & 7), chunks(bits >> 62 == 0 ? 1 : 16 >> (bits >> 62)) {}
  // The reserved bits of a descriptor on sm_90.
  static std::uint64_t reserved(std::uint64_t bits) { return bits & 0x3ff1c000c000c000; }

  std::uint64_t swizzled(std::uint64_t offset) const {
    const std::uint64_t a = start + offset;
    return a ^ (((a >> 7) - base_offset) & static_cast<std::uint64_t>(chunks - 1)) << 4;
  }
  std::uint64_t k_major(int row, int chunk) const {
    return swizzled(static_cast<std::uint64_t>(row % 8 * 16 * chunks) +
                    static_cast<std::uint64_t>(row / 8) * stride +
                    static_cast<std::uint64_t>(chunk) * (chunks == 1 ? leading : 16));
  }
  std::uint64_t mn_major(int chunk, int k) const {
    const auto c = static_cast<std::uint64_t>(chunk), low = static_cast<std::uint64_t>(k % 8),
               high = static_cast<std::uint64_t>(k / 8), s = static_cast<std::uint64_t>(chunks);
    return swizzled(chunks == 1 ? c * stride + low * 16 + high * leading
                                : c % s * 16 + c / s * leading + low * 16 * s + high * stride);
  }
};

struct Multiplication : AsyncOperation {
  Frame* frame = nullptr;
  std::vector<std::uint32_t> results, operands;  // registers of D, and of A if it is in registers
  std::vector<std::uint32_t> a_chunks, b_chunks; // offsets in shared memory, in the order of the elements
  int columns = 0, depth = 0;
  ptx::Type d = ptx::Type::None, a = ptx::Type::None, b = ptx::Type::None;
  // With `add`, the product is added to D; without, it replaces D.
  bool add = true, negate_a = false, negate_b = false, saturate = false;
  bool a_by_columns = false, b_by_columns = false; // whether they are MN-major

  void poison() override;
  void read(Mask lanes) override;
  void land(Block& from, Mask lanes) override;
  void waited() override;

private:
  void gather(std::vector<std::uint8_t>& to) const;
  template <class T, class Get> void unpack(T* a, T* b, const Get& get) const;

  std::vector<std::uint8_t> before_;
  std::vector<float> a_, b_; // [k][row], [k][column]
  std::vector<std::int32_t> a_integers_, b_integers_;
};

} // namespace kiln::emulator
