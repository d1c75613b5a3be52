// Tests tensor maps: copies to several blocks, maps that a kernel makes, and refused or reported maps.
#include "jit/emulator/hopper.h"
#include "jit/emulator/instructions/one_instruction.h"
#include "jit/emulator/instructions/tensor_copies.h"

#include <kiln/dsl/error.h>

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

TEST_CASE("a multicast load fills each block of the mask, and the mbarrier of each counts it", "[emulator]") {
  const std::string text = R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u16 mask) .reqntid 32 .explicitcluster .reqnctapercluster 4, 1, 1
{
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>; .reg .b16 %s<4>;
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x; mov.b64 %x0, map; cvta.param.u64 %x0, %x0; ld.param.u64 %x2, [out]; ld.param.u16 %s0, [mask];
  mov.u32 %r7, smem; mov.u32 %r8, bar; mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p3, %r3, 1;
  cvt.u32.u16 %r4, %s0; shr.u32 %r4, %r4, %r3; and.b32 %r4, %r4, 1; setp.eq.u32 %p4, %r4, 0;
  @!%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r8], 1; fence.mbarrier_init.release.cluster;
  @%p4 bra READY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1024;
READY:
  bar.warp.sync 0xffffffff;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  and.pred %p5, %p0, %p3; mov.u32 %r5, 0;
  @%p5 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r7], [%x0, {%r5, %r5}], [%r8], %s0;
  @%p4 bra END;
WAIT:
  mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra WAIT;
  mad.lo.u32 %r9, %r0, 32, %r7; mov.u32 %r10, %ctaid.x; shl.b32 %r10, %r10, 10; mad.lo.u32 %r10, %r0, 32, %r10; cvt.u64.u32 %x3, %r10; add.u64 %x4, %x2, %x3;
  ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r9]; st.global.v4.u32 [%x4], {%r11, %r12, %r13, %r14};
  ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r9+16]; st.global.v4.u32 [%x4+16], {%r11, %r12, %r13, %r14};
END:
  barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
  ret;
})";
  auto module = hopper_module(text);
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t k = 0; k < 256; ++k)
    values[k] = 77 * k;
  at_all_moments([&](const Options& o) {
    for (const std::uint16_t mask : {0xf, 0x5, 0xa}) {
      Gpu gpu(o);
      TensorMapFields f;
      f.type = TensorMapType::UInt32;
      f.rank = 2;
      f.address = on_gpu(gpu, values, "tensor");
      f.sizes = {16, 16};
      f.strides = {64};
      f.box = {16, 16};
      const std::uint64_t out = on_gpu(gpu, std::vector<std::uint32_t>(1024, 5), "out");
      Parameters p;
      p.add(encode(f)).add(out).add(mask);
      auto report =
          gpu.launch_packed(module, "k", {.grid = {4}, .block = {32}, .shared_bytes = 1024}, p.bytes());
      INFO(report.text());
      REQUIRE(report.ok());
      const auto found = from_gpu<std::uint32_t>(gpu, out, 1024);
      bool right = true;
      for (std::uint32_t k = 0; k < 1024; ++k)
        right &= found[k] == (mask >> (k / 256) & 1 ? values[k % 256] : 5);
      CHECK(right);
    }
  });
}

TEST_CASE("a kernel makes its own tensor map, and acquires it", "[emulator]") {
  const std::string text = R"(
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 in, .param .u64 map, .param .u64 out) .maxntid 32
{
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>;
  .shared .align 8 .b64 bar; .shared .align 128 .b8 made[128];
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [map]; ld.param.u64 %x3, [out]; cvta.to.global.u64 %x2, %x2;
  mov.u32 %r0, %tid.x; mov.u32 %r1, made; mov.u32 %r7, smem; mov.u32 %r8, bar; setp.eq.u32 %p0, %r0, 0;
  mad.lo.u32 %r2, %r0, 4, %r1; mov.u32 %r3, 0; st.shared.u32 [%r2], %r3; bar.warp.sync 0xffffffff;
  @!%p0 bra MADE;
  mov.u64 %x4, made; mov.u32 %r4, 8; mov.u32 %r5, 16; mov.u64 %x5, 64; mov.u32 %r6, 1;
  tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%x4], %x1;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%x4], 1;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%x4], 0, %r4;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%x4], 1, %r5;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%x4], 0, %r5;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%x4], 1, %r5;
  tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%x4], 0, %x5;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%x4], 0, %r6;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%x4], 1, %r6;
  tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%x4], 2;
  tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%x4], 0;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%x4], 0;
  tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%x4], 0;
MADE:
  bar.warp.sync 0xffffffff;
  mov.u64 %x6, made;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%x2], [%x6], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%x2], 128;
  @%p0 mbarrier.init.shared::cta.b64 [%r8], 1; bar.sync 0;
  @!%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 512;
  mov.u32 %r9, 4; mov.u32 %r10, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%x2, {%r9, %r10}], [%r8];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0; @!%p1 bra WAIT;
  mad.lo.u32 %r11, %r0, 16, %r7; ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];
  mad.wide.u32 %x7, %r0, 16, %x3; st.global.v4.u32 [%x7], {%r12, %r13, %r14, %r15};
  ret;
})";
  auto module = hopper_module(text);
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t k = 0; k < 256; ++k)
    values[k] = k * k;
  at_all_moments([&](const Options& o) {
    Gpu gpu(o);
    const std::uint64_t in = on_gpu(gpu, values), map = gpu.allocate(128), out = gpu.allocate(512);
    const std::uint64_t words[] = {in, map, out};
    auto report = gpu.launch(module, "k", {.block = {32}, .shared_bytes = 1024}, words);
    INFO(report.text());
    REQUIRE(report.ok());
    const auto found = from_gpu<std::uint32_t>(gpu, out, 128);
    for (std::uint32_t k = 0; k < 128; ++k)
      CHECK(found[k] == values[k / 8 * 16 + 4 + k % 8]);
  });
  std::string without = text;
  const std::string fence = "fence.proxy.tensormap::generic.acquire.gpu [%x2], 128;";
  without.erase(without.find(fence), fence.size());
  Gpu gpu({.arch = "sm_90a"});
  const std::uint64_t words[] = {on_gpu(gpu, values), gpu.allocate(128), gpu.allocate(512)};
  auto report = gpu.launch(hopper_module(without), "k", {.block = {32}, .shared_bytes = 1024}, words);
  INFO(report.text());
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].fault == Fault::MissingProxyFence);
}

TEST_CASE("a tensor map that the driver refuses is refused with its reason", "[emulator]") {
  TensorMapFields good;
  good.type = TensorMapType::BFloat16;
  good.rank = 2;
  good.address = 4096;
  good.sizes = {100, 50};
  good.strides = {208};
  good.box = {64, 8};
  good.swizzle = TensorMapSwizzle::Bytes128;
  CHECK(problem(good).empty());
  auto refused = [&](auto change, const std::string& why) {
    TensorMapFields f = good;
    change(f);
    CHECK_THROWS_AS(encode(f), UserError);
    INFO(problem(f));
    CHECK(problem(f).find(why) != std::string::npos);
  };
  refused([](auto& f) { f.rank = 6; }, "the rank is 6; it is 1 to 5");
  refused([](auto& f) { f.address = 4104; }, "no multiple of 16");
  refused([](auto& f) { f.sizes[1] = 0; }, "the size of dimension 1 is 0");
  refused([](auto& f) { f.sizes[0] = (std::uint64_t(1) << 32) + 1; }, "it is 1 to 2^32");
  refused([](auto& f) { f.strides[0] = 200; }, "it is a multiple of 16");
  refused([](auto& f) { f.strides[0] = std::uint64_t(1) << 40; }, "it is less than 2^40");
  refused([](auto& f) { f.box[1] = 257; }, "the box of dimension 1 is 257; it is 1 to 256");
  refused([](auto& f) { f.box[0] = 63; }, "it is a multiple of 16");
  refused([](auto& f) { f.box[0] = 72; }, "with a swizzle of 128 it has at most that");
  refused([](auto& f) { f.element_strides[1] = 9; }, "it is 1 to 8");
  refused([](auto& f) { f.interleave = TensorMapInterleave::Bytes16; }, "interleaved maps have 3 to 5");
  refused([](auto& f) { f.type = TensorMapType::Int32, f.box[0] = 32, f.fill = TensorMapFill::NaN; },
          "NaN fills");
}

TEST_CASE("wrong tensor copies are reported", "[emulator]") {
  auto module = hopper_module(load_kernel(2));
  auto reported = [&](auto change, std::uint32_t bytes, Fault fault, const std::string& text) {
    Options o;
    o.arch = "sm_90a";
    o.instruction_budget = 20000;
    o.asynchrony = Asynchrony::Latest;
    Gpu gpu(o);
    TensorMapFields f;
    f.type = TensorMapType::UInt32;
    f.rank = 2;
    f.address = on_gpu(gpu, std::vector<std::uint32_t>(256), "tensor");
    f.sizes = {16, 16};
    f.strides = {64};
    f.box = {16, 16};
    change(f);
    const std::uint64_t out = gpu.allocate(1024);
    auto report = gpu.launch_packed(module, "k", {.block = {64}, .shared_bytes = 4096},
                                    arguments(f, 0, out, bytes, {}).bytes());
    INFO(report.text());
    CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& x) {
      return x.fault == fault && x.message.find(text) != std::string::npos;
    }));
  };
  reported([](auto& f) { f.sizes[1] = 17, f.box[1] = 17; }, 1088, Fault::OutOfBounds,
           "past the end of tensor");
  reported([](auto& f) { f.rank = 1; }, 1024, Fault::IllegalOperand,
           "is for 2 dimensions, and the tensor map has 1");
  reported([](auto& f) { f.box = {32, 64}; }, 1024, Fault::OutOfBounds, "shared memory");
}
