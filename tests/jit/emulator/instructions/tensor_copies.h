// Provides kernels that load a box of a tensor into shared memory or store it from there.
#pragma once

#include "jit/emulator/hopper.h"

#include <cstdint>
#include <string>

namespace kiln::test {

inline std::string parameters() {
  return ".param .align 64 .b8 map[128], .param .u64 in, .param .u64 out, .param .u32 bytes, .param .s32 c0, "
         ".param .s32 c1, "
         ".param .s32 c2, .param .s32 c3, .param .s32 c4";
}
inline const char* const start_of = R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
)";
inline const char* const body_start = R"(
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>;
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x; mov.b64 %x0, map; cvta.param.u64 %x0, %x0;
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; ld.param.u32 %r1, [bytes];
  ld.param.s32 %r2, [c0]; ld.param.s32 %r3, [c1]; ld.param.s32 %r4, [c2]; ld.param.s32 %r5, [c3]; ld.param.s32 %r6, [c4];
  mov.u32 %r7, smem; mov.u32 %r8, bar; setp.eq.u32 %p0, %r0, 0;
)";
inline std::string coordinates(std::uint32_t rank) {
  std::string s;
  for (std::uint32_t d = 0; d < rank; ++d)
    s += (d ? ", %r" : "%r") + std::to_string(2 + d);
  return s;
}

// All threads execute `act` for each byte, with its address in shared memory in %r10 and from `base` on in
// %x4.
inline std::string copy_bytes(const std::string& base, const std::string& act) {
  return R"(
  mov.u32 %r9, %r0;
COPY:
  setp.ge.u32 %p2, %r9, %r1; @%p2 bra COPIED;
  add.u32 %r10, %r7, %r9; cvt.u64.u32 %x3, %r9; add.u64 %x4, )" +
         base + ", %x3;\n  " + act + R"(
  add.u32 %r9, %r9, 64; bra COPY;
COPIED:
)";
}

inline std::string load_kernel(std::uint32_t rank) {
  return std::string(start_of) + ".visible .entry k(" + parameters() + ") .maxntid 64\n{" + body_start + R"(
  @%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
  @%p0 fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @!%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %r1;
  cp.async.bulk.prefetch.tensor.)" +
         std::to_string(rank) + "d.L2.global.tile [%x0, {" + coordinates(rank) +
         "}];\n  cp.async.bulk.tensor." + std::to_string(rank) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%x0, {" + coordinates(rank) +
         R"(}], [%r8];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0;
  @!%p1 bra WAIT;
)" + copy_bytes("%x2", "ld.shared.u8 %r11, [%r10]; st.global.u8 [%x4], %r11;") +
         "  ret;\n}";
}

inline std::string store_kernel(std::uint32_t rank, const std::string& reduction) {
  return std::string(start_of) + ".visible .entry k(" + parameters() + ") .maxntid 64\n{" + body_start +
         copy_bytes("%x1", "ld.global.u8 %r11, [%x4]; st.shared.u8 [%r10], %r11;") + R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p0 bra DONE;
  )" + (reduction.empty() ? "cp.async" : "cp.reduce.async") +
         ".bulk.tensor." + std::to_string(rank) + "d.global.shared::cta" +
         (reduction.empty() ? "" : "." + reduction) + ".tile.bulk_group [%x0, {" + coordinates(rank) +
         R"(}], [%r7];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
})";
}

// The arguments of both kernels.
inline Parameters arguments(const emulator::TensorMapFields& f, std::uint64_t in, std::uint64_t out,
                            std::uint64_t bytes, const std::array<std::int32_t, 5>& c) {
  Parameters p;
  p.add(encode(f)).add(in).add(out).add(static_cast<std::uint32_t>(bytes));
  for (const std::int32_t x : c)
    p.add(x);
  return p;
}

} // namespace kiln::test
