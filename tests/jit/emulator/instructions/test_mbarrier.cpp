// Tests mbarriers within a block, and blocks of a cluster that write each other's shared memory.
#include "jit/emulator/small_kernel.h"

#include <algorithm>

using namespace kiln;
using emulator::Fault;
using test::run_small;

TEST_CASE("a producer and a consumer alternate by mbarriers", "[emulator]") {
  // Warp 0 fills a slot, warp 1 sums it up, ten times; parities flip.
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    auto r = run_small(R"(
      .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 16 .b8 slot[128];
      mov.u32 %r1, full; mov.u32 %r2, empty; mov.u32 %r3, slot;
      setp.eq.u32 %p1, %r0, 0;
      @%p1 mbarrier.init.shared::cta.b64 [%r1], 32; @%p1 mbarrier.init.shared.b64 [%r2], 32;
      bar.sync 0;
      and.b32 %r4, %r0, 31; mad.lo.u32 %r5, %r4, 4, %r3; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
      setp.ge.u32 %p2, %r0, 32; @%p2 bra CONSUMER;
      PRODUCER: xor.b32 %r9, %r7, 1;
      W1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], %r9; @!%p3 bra W1;
      mad.lo.u32 %r10, %r6, 100, %r4; st.shared.u32 [%r5], %r10;
      mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];
      xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 10; @%p4 bra PRODUCER;
      bra DONE;
      CONSUMER:
      W2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], %r7; @!%p3 bra W2;
      xor.b32 %r11, %r5, 4; ld.shared.u32 %r12, [%r11]; add.u32 %r8, %r8, %r12;
      mbarrier.arrive.shared.b64 %x5, [%r2];
      xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 10; @%p4 bra CONSUMER;
      st.global.u32 [%x0], %r8;
      DONE:)",
                       64, {.seed = seed});
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t t = 32; t < 64; ++t)
      CHECK(r.out[t] == 4500 + 10 * ((t - 32) ^ 1));
  }
}

TEST_CASE("an mbarrier counts bytes, states and drops", "[emulator]") {
  auto r = run_small(R"(
      .shared .align 8 .b64 bar; mov.u32 %r1, bar;
      mbarrier.init.shared.b64 [%r1], 2;
      mbarrier.arrive.expect_tx.shared.b64 %x1, [%r1], 64;
      mbarrier.arrive.shared.b64 %x2, [%r1];
      mbarrier.test_wait.shared.b64 %p1, [%r1], %x1;
      mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 64;
      mbarrier.test_wait.shared.b64 %p2, [%r1], %x1;
      mbarrier.pending_count.b64 %r2, %x2;
      mbarrier.arrive_drop.shared.b64 %x3, [%r1];
      mbarrier.arrive.shared.b64 %x4, [%r1]; mbarrier.arrive.shared.b64 %x5, [%r1];
      mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0;
      selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2; selp.u32 %r5, 4, 0, %p3; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; mad.lo.u32 %r3, %r2, 10, %r3;
      st.global.u32 [%x0], %r3;)",
                     1);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  CHECK(r.out[0] == 10 + 2 + 4); // phases 0, 1 and 2 are over: the parity is odd again
  auto fault = run_small(".shared .align 8 .b64 bar; mbarrier.init.shared.b64 [bar], 1; "
                         "mbarrier.arrive.shared.b64 %x1, [bar], 2;",
                         1)
                   .report;
  REQUIRE(fault.findings.size() == 1);
  CHECK(fault.findings[0].message.find("arrives 2 times at an mbarrier that waits for 1 more") !=
        std::string::npos);
  fault = run_small(".shared .align 8 .b64 bar; mbarrier.arrive.shared.b64 %x1, [bar];", 1).report;
  REQUIRE(fault.findings.size() == 1);
  CHECK(fault.findings[0].message.find("it was not initialised") != std::string::npos);
}

TEST_CASE("bytes that never arrive are reported before the deadlock that they cause, which names the wait",
          "[emulator]") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const auto r = run_small(R"(
.shared .align 8 .b64 bar; mov.u32 %r1, bar; setp.ne.u32 %p1, %r0, 0; @%p1 bra MADE;
mbarrier.init.shared.b64 [%r1], 1;
mbarrier.arrive.expect_tx.shared.b64 %x1, [%r1], 64;
MADE: bar.sync 0;
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
@!%p2 bra WAIT;)",
                             64, {.seed = seed})
                       .report;
    INFO(r.text());
    REQUIRE(r.findings.size() == 2);
    CHECK(r.findings[0].fault == emulator::Fault::ByteCount);
    CHECK(r.findings[1].fault == emulator::Fault::Deadlock);
    CHECK(r.findings[1].ptx_line == r.findings[0].ptx_line);
    CHECK(r.findings[1].message.find("mbarrier.try_wait.parity.shared.b64 is never passed") !=
          std::string::npos);
  }
}

TEST_CASE("too many bytes for an mbarrier are reported once, where they are expected", "[emulator]") {
  const auto r = run_small(R"(
.shared .align 8 .b64 bar; mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 3;
mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 4000000000;
mbarrier.arrive.shared.b64 %x1, [%r1];
mbarrier.arrive.shared.b64 %x1, [%r1];)",
                           1)
                     .report;
  INFO(r.text());
  REQUIRE(!r.findings.empty());
  for (const auto& f : r.findings)
    CHECK(f.message.find("mbarrier.arrive") == std::string::npos);
  CHECK(r.findings[0].message.find(
            "brings the bytes under way to 4000000000; at most 1048575 are possible") != std::string::npos);
}

TEST_CASE("blocks of a cluster reach each other's shared memory", "[emulator]") {
  const std::string text = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32 .explicitcluster .reqnctapercluster 4, 1, 1
{
  .reg .b32 %r<16>; .reg .b64 %x<4>;
  .shared .align 4 .b8 mine[128];
  mov.u32 %r0, %tid.x; mov.u32 %r1, mine; mad.lo.u32 %r2, %r0, 4, %r1;
  mov.u32 %r3, %cluster_ctarank; add.u32 %r4, %r3, 1; and.b32 %r4, %r4, 3;
  barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
  mapa.shared::cluster.u32 %r5, %r2, %r4; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r7, %r6, 100, %r0;
  st.shared::cluster.u32 [%r5], %r7;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  ld.shared.u32 %r8, [%r2]; getctarank.shared::cluster.u32 %r9, %r5; mad.lo.u32 %r8, %r9, 10000, %r8;
  ld.param.u64 %x0, [out]; mad.lo.u32 %r10, %r6, 32, %r0; mad.wide.u32 %x1, %r10, 4, %x0; st.global.u32 [%x1], %r8;
  ret;
})";
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    emulator::Options options;
    options.arch = "sm_90a";
    options.seed = seed;
    emulator::Gpu gpu(options);
    auto module = emulator::Module::parse(text, "cluster.ptx");
    const std::uint64_t out = gpu.allocate(8 * 128);
    const std::uint64_t words[] = {out};
    auto report = gpu.launch(module, "k", {.grid = {8}, .block = {32}}, words);
    INFO(report.text());
    REQUIRE(report.ok());
    std::vector<std::uint32_t> found(256);
    gpu.read(found.data(), out, 1024);
    for (std::uint32_t b = 0; b < 8; ++b)
      for (std::uint32_t t = 0; t < 32; ++t) {
        const std::uint32_t from = b / 4 * 4 + (b + 3) % 4, next = (b + 1) % 4;
        CHECK(found[b * 32 + t] == from * 100 + t + 10000 * next);
      }
  }
}

TEST_CASE("isspacep.shared::cta is true for addresses in the block itself only", "[emulator]") {
  const std::string text = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 2 .explicitcluster .reqnctapercluster 2, 1, 1
{
  .reg .b32 %r<8>; .reg .b64 %x<8>; .reg .pred %p<2>;
  .shared .align 4 .b8 mine[4];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u64 %x1, mine; cvta.shared.u64 %x1, %x1;
  mapa.u64 %x2, %x1, %r0;
  isspacep.shared::cta %p0, %x2; isspacep.shared::cluster %p1, %x2;
  selp.u32 %r2, 1, 0, %p0; selp.u32 %r3, 2, 0, %p1; add.u32 %r2, %r2, %r3;
  ld.param.u64 %x3, [out]; mad.lo.u32 %r4, %r1, 2, %r0; mad.wide.u32 %x3, %r4, 4, %x3; st.global.u32 [%x3], %r2;
  ret;
})";
  emulator::Gpu gpu({.arch = "sm_90a"});
  const std::uint64_t out = gpu.allocate(16);
  const std::uint64_t words[] = {out};
  const auto report =
      gpu.launch(emulator::Module::parse(text, "spaces.ptx"), "k", {.grid = {2}, .block = {2}}, words);
  INFO(report.text());
  REQUIRE(report.ok());
  std::vector<std::uint32_t> found(4);
  gpu.read(found.data(), out, 16);
  CHECK(found == std::vector<std::uint32_t>{3, 2, 2, 3}); // thread t maps the address to block t
}

TEST_CASE("bulk copies complete the bytes of an mbarrier, and groups of them are waited for", "[emulator]") {
  std::vector<std::uint32_t> in(256);
  for (std::uint32_t k = 0; k < 256; ++k)
    in[k] = 3 * k;
  const std::string body = R"(
      .shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar; mov.u32 %r1, bar; mov.u32 %r2, s; ld.param.u64 %x1, [in];
      setp.eq.u32 %p1, %r0, 0;
      @%p1 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0; @!%p1 bra WAIT;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], BYTES;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%x1], 512, [%r1];
      add.u32 %r3, %r2, 512; add.u64 %x2, %x1, 512;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%x2], 512, [%r1];
      WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra WAIT;
      mad.lo.u32 %r4, %r0, 4, %r2; ld.shared.u32 %r5, [%r4]; add.u32 %r5, %r5, 1; st.shared.u32 [%r4], %r5;
      fence.proxy.async.shared::cta; bar.sync 0; @!%p1 bra DONE;
      cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
      DONE:)";
  auto with = [&](const std::string& n) {
    std::string s = body;
    return s.replace(s.find("BYTES"), 5, n);
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    emulator::Options options;
    options.seed = seed;
    options.checks.uninitialised = true;
    auto r = run_small(with("1024"), 256, options, "", in);
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t t = 0; t < 256; ++t)
      CHECK(r.out[t] == 3 * t + 1);
    options.instruction_budget = 200000;
    CHECK_FALSE(
        run_small(with("1040"), 256, options, "", in).report.finished); // waits for bytes that never arrive
  }
}
