// Tests divergence, waiting and exchange between lanes, warps and blocks.
#include "jit/emulator/small_kernel.h"

#include <bit>
#include <kiln/dsl/error.h>
#include <kiln/jit/base/sanitized.h>

using namespace kiln;
using emulator::Fault;
using test::run_small;

namespace {

bool has(const emulator::Report& r, Fault f, const std::string& text = "") {
  for (const auto& x : r.findings)
    if (x.fault == f && x.message.find(text) != std::string::npos) return true;
  return false;
}

} // namespace

TEST_CASE("diverged lanes reconverge after a branch and a loop", "[emulator]") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    auto r = run_small(R"(
      and.b32 %r1, %r0, 7; mov.u32 %r2, 0; mov.u32 %r3, 0;
      LOOP: add.u32 %r2, %r2, %r1; add.u32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r1; @%p1 bra LOOP;
      setp.lt.u32 %p2, %r1, 3; @%p2 bra SMALL;
      add.u32 %r2, %r2, 1000; bra JOIN;
      SMALL: add.u32 %r2, %r2, 2000;
      JOIN: activemask.b32 %r4; setp.ne.u32 %p3, %r4, -1; @%p3 add.u32 %r2, %r2, 100000;
      st.global.u32 [%x0], %r2;)",
                       64, {.seed = seed});
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t t = 0; t < 64; ++t)
      CHECK(r.out[t] == (t % 8) * (t % 8 + 1) + (t % 8 < 3 ? 2000u : 1000u));
  }
}

TEST_CASE("a lane may wait in a loop for another lane, and a warp for a warp", "[emulator]") {
  // Each thread waits for the next one: 63 is first, 0 last.
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    auto r = run_small(R"(
      setp.eq.u32 %p1, %r0, 63; @%p1 bra LAST;
      WAIT: ld.acquire.gpu.global.u32 %r1, [%x0+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT;
      add.u32 %r1, %r1, 1; st.release.gpu.global.u32 [%x0], %r1; bra DONE;
      LAST: mov.u32 %r1, 1; st.release.gpu.global.u32 [%x0], %r1;
      DONE:)",
                       64, {.seed = seed});
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t t = 0; t < 64; ++t)
      CHECK(r.out[t] == 64 - t);
  }
}

TEST_CASE("a lock taken lane by lane is never held twice", "[emulator]") {
  // Most of them wait, and the time grows with their number.
  constexpr std::uint32_t lanes = sanitized ? 32 : 128;
  auto r = run_small(R"(
      TRY: atom.global.acquire.gpu.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
      ld.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.global.u32 [%out+4], %r2;
      fence.acq_rel.gpu; atom.global.release.gpu.exch.b32 %r3, [%out], 0;)",
                     lanes, {.seed = 3}, "", {}, 2, 2);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  CHECK(r.out[1] == 2 * lanes);
}

TEST_CASE("shuffles, votes and matches", "[emulator]") {
  auto r = run_small(R"(
      mul.lo.u32 %r1, %r0, 3;
      shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;
      shfl.sync.up.b32 %r3|%p1, %r1, 2, 0, -1;
      shfl.sync.down.b32 %r4|%p2, %r1, 3, 0x181f, -1;
      shfl.sync.idx.b32 %r5, %r1, 9, 31, -1;
      selp.u32 %r6, 1, 0, %p1; selp.u32 %r7, 1, 0, %p2;
      setp.gt.u32 %p3, %r0, 10;
      vote.sync.ballot.b32 %r8, %p3, -1;
      vote.sync.any.pred %p4, %p3, -1; vote.sync.all.pred %p5, !%p3, -1;
      selp.u32 %r9, 1, 0, %p4; selp.u32 %r10, 1, 0, %p5;
      and.b32 %r11, %r0, 3; match.any.sync.b32 %r12, %r11, -1;
      redux.sync.add.s32 %r13, %r1, -1; redux.sync.max.u32 %r14, %r1, -1;
      mad.wide.u32 %x1, %r0, 40, %out;
      st.global.v4.u32 [%x1], {%r2, %r3, %r4, %r5}; st.global.v2.u32 [%x1+16], {%r6, %r7}; st.global.v2.u32 [%x1+24], {%r8, %r9};
      st.global.u32 [%x1+32], %r12; add.u32 %r13, %r13, %r14; add.u32 %r13, %r13, %r10; st.global.u32 [%x1+36], %r13;)",
                     32, {}, "", {}, 320);
  INFO(r.report.text());
  // v4 at multiples of 40 is misaligned in three of four lanes, which must be reported
  CHECK(has(r.report, Fault::Misaligned, "multiple of 16"));
  for (std::uint32_t l = 0; l < 32; ++l) {
    const std::uint32_t* v = &r.out[l * 10];
    if (l % 2 == 0) {
      CHECK(v[0] == 3 * (l ^ 5));
      CHECK(v[1] == 3 * (l >= 2 ? l - 2 : l));
      CHECK(v[2] == 3 * ((l + 3) / 8 == l / 8 ? l + 3 : l));
      CHECK(v[3] == 27);
    }
    CHECK(v[4] == (l >= 2));
    CHECK(v[5] == ((l + 3) / 8 == l / 8));
    CHECK(v[6] == 0xfffff800);
    CHECK(v[7] == 1);
    CHECK(v[8] == 0x11111111u << (l % 4));
    CHECK(v[9] == 3 * 31 * 16 + 93);
  }
}

TEST_CASE("members of a shuffle may arrive by different instructions", "[emulator]") {
  auto r = run_small(R"(
      setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;
      add.u32 %r1, %r0, 100; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; bra JOIN;
      LOW: add.u32 %r1, %r0, 200; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
      JOIN: st.global.u32 [%x0], %r2;)",
                     32);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  for (std::uint32_t l = 0; l < 32; ++l)
    CHECK(r.out[l] == (l < 16 ? l + 16 + 100 : l - 16 + 200));
}

TEST_CASE("groups of lanes with masks of their own", "[emulator]") {
  auto r = run_small(R"(
      and.b32 %r1, %r0, 24; shl.b32 %r2, 255, %r1;
      redux.sync.add.u32 %r3, %r0, %r2;
      elect.sync %r4|%p1, %r2; selp.u32 %r5, 1000, 0, %p1; add.u32 %r3, %r3, %r5;
      st.global.u32 [%x0], %r3;)",
                     32);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  for (std::uint32_t l = 0; l < 32; ++l)
    CHECK(r.out[l] == l / 8 * 64 + 28 + (l % 8 == 0 ? 1000 : 0));
}

TEST_CASE("barriers: whole blocks, some warps, and reductions", "[emulator]") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    auto r = run_small(R"(
      .shared .align 4 .b8 buffer[512];
      mov.u32 %r1, buffer; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1;
      st.shared.u32 [%r2], %r0; bar.sync 0;
      xor.b32 %r3, %r0, 127; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3];
      setp.gt.u32 %p1, %r0, 99; bar.red.popc.u32 %r5, 0, %p1; bar.red.or.pred %p2, 0, %p1; selp.u32 %r6, 1, 0, %p2;
      add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6;
      setp.ge.u32 %p3, %r0, 64; @%p3 bra CONSUME;
      add.u32 %r7, %r0, 500; st.shared.u32 [%r2], %r7; bar.arrive 3, 128; bra JOIN;
      CONSUME: bar.sync 3, 128; xor.b32 %r3, %r0, 64; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r8, [%r3]; add.u32 %r4, %r4, %r8;
      JOIN: st.global.u32 [%x0], %r4;)",
                       128, {.seed = seed});
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t t = 0; t < 128; ++t)
      CHECK(r.out[t] == (t ^ 127) + 28 + 1 + (t >= 64 ? (t ^ 64) + 500 : 0));
  }
}

TEST_CASE("a deadlock report says which warp waits where", "[emulator]") {
  auto r =
      run_small("setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 2, 64; B:", 64);
  CHECK_FALSE(r.report.finished);
  CHECK(has(r.report, Fault::Deadlock, "barrier 1"));
  CHECK(has(r.report, Fault::Deadlock, "barrier 2"));
  CHECK(has(r.report, Fault::Deadlock, "32 of 64 threads"));

  r = run_small("setp.lt.u32 %p1, %r0, 16;\n@%p1 bra A;\nbar.sync 0;\nbra B;\nA: bar.sync 0;\nB:", 32);
  CHECK_FALSE(r.report.finished);
  CHECK(has(r.report, Fault::BarrierDivergence, "lanes 0xffff0000 wait at line 11"));
  CHECK(has(r.report, Fault::BarrierDivergence, "lanes 0x0000ffff wait at line 13"));

  r = run_small("setp.lt.u32 %p1, %r0, 16; @%p1 bra A; LOOP: bra LOOP; A: bar.warp.sync -1;", 32,
                {.instruction_budget = 100000});
  CHECK_FALSE(r.report.finished);
  CHECK(has(r.report, Fault::Budget, "100000 instructions"));
}

// From sm_70 on a barrier of the whole block waits for the threads that have not exited, and only for those.
TEST_CASE("barriers do not wait for threads that have exited", "[emulator]") {
  for (const char* wait :
       {"bar.sync 0;", "barrier.sync 0;", "barrier.sync.aligned 0;", "bar.red.popc.u32 %r5, 0, %p2;"})
    for (std::uint32_t gone : {1u, 20u, 32u, 50u, 96u, 127u})
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        CAPTURE(wait, gone, seed);
        const auto r =
            run_small("setp.lt.u32 %p1, %r0, " + std::to_string(gone) + R"(; setp.eq.u32 %p2, %r0, 127;
          .shared .align 4 .u32 s; @%p1 exit; @%p2 st.shared.u32 [s], 41; )" +
                          wait + R"(
          ld.shared.u32 %r1, [s]; add.u32 %r1, %r1, 1; st.global.u32 [%x0], %r1;)",
                      128, {.seed = seed, .checks = emulator::Checks::all()});
        INFO(r.report.text());
        REQUIRE(r.report.ok());
        for (std::uint32_t t = 0; t < 128; ++t)
          CHECK(r.out[t] == (t < gone ? 0 : 42));
      }
}

TEST_CASE("a barrier with a number of threads counts warps whose live lanes have all arrived", "[emulator]") {
  // 8 lanes of each of two warps have exited, and the barrier waits for 64 threads.
  const auto kernel = [](const std::string& wait) {
    return "and.b32 %r1, %r0, 31; setp.lt.u32 %p1, %r1, 8; setp.eq.u32 %p2, %r0, 40; .shared .align 4 .u32 "
           "s; @%p1 exit; "
           "@%p2 st.shared.u32 [s], 41; " +
           wait + " ld.shared.u32 %r2, [s]; st.global.u32 [%x0], %r2;";
  };
  for (const char* wait :
       {"bar.sync 1, 64;", "barrier.sync 1, 64;",
        // the lanes of a warp arrive by different instructions
        "setp.lt.u32 %p3, %r1, 20; @%p3 bra A; barrier.sync 1, 64; bra B; A: barrier.sync 1, 64; B:"})
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(wait, seed);
      const auto r = run_small(kernel(wait), 64, {.seed = seed, .checks = emulator::Checks::all()});
      INFO(r.report.text());
      REQUIRE(r.report.ok());
      for (std::uint32_t t = 0; t < 64; ++t)
        CHECK(r.out[t] == (t % 32 < 8 ? 0 : 41));
    }
  // A warp that exited as a whole never arrives, and half of the lanes of four warps are not two warps.
  for (const char* text : {"setp.ge.u32 %p1, %r0, 32; @%p1 exit; bar.sync 1, 64;",
                           "setp.ge.u32 %p1, %r0, 32; @%p1 exit; barrier.sync 1, 64;",
                           "and.b32 %r1, %r0, 31; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; barrier.sync 1, 64; "
                           "bra B; A: barrier.sync 2, 64; B:"}) {
    CAPTURE(text);
    const auto r = run_small(text, 128);
    INFO(r.report.text());
    CHECK_FALSE(r.report.finished);
    CHECK(has(r.report, Fault::Deadlock, "barrier 1"));
    if (text[0] == 'a') CHECK(has(r.report, Fault::Deadlock, "counts when all its lanes have arrived"));
  }
}

TEST_CASE("the cluster's barrier does not count threads that exit between their arrival and its end",
          "[emulator]") {
  // In each block a thread arrives and exits. The others see what the last thread to arrive has written.
  const std::string text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) .reqnctapercluster 2
{
  .reg .b32 %r<8>; .reg .b64 %x<4>; .reg .pred %p<4>; .shared .align 4 .u32 s;
  ld.param.u64 %x0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, s; mapa.shared::cluster.u32 %r3, %r2, 1;
  setp.gt.u32 %p0, %r0, 3; mov.u32 %r6, 0; @%p0 bra LATE;
  barrier.cluster.arrive; exit;
LATE: setp.eq.u32 %p1, %r0, 4; setp.eq.and.u32 %p1, %r1, 1, %p1; @!%p1 bra COME;
SPIN: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3000; @%p2 bra SPIN;
  st.shared.u32 [%r2], %r6;
COME: barrier.cluster.arrive; barrier.cluster.wait; ld.shared::cluster.u32 %r4, [%r3]; mad.lo.u32 %r5, %r1, 8, %r0; mad.wide.u32 %x1, %r5, 4, %x0;
  st.global.u32 [%x1], %r4; barrier.cluster.arrive; barrier.cluster.wait;
})";
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    emulator::Gpu gpu({.arch = "sm_90a", .seed = seed, .checks = emulator::Checks::all()});
    std::vector<std::uint32_t> out(16);
    const std::uint64_t words[] = {gpu.allocate(64)};
    const auto report =
        gpu.launch(emulator::Module::parse(text, "leaves.ptx"), "k", {.grid = {2}, .block = {8}}, words);
    INFO(report.text());
    REQUIRE(report.ok());
    gpu.read(out.data(), words[0], 64);
    for (std::uint32_t t = 0; t < 16; ++t)
      if (t % 8 > 3) CHECK(out[t] == 3000);
  }
}

TEST_CASE("wrong accesses are reported with place and thread, and the kernel continues", "[emulator]") {
  auto r = run_small("add.u64 %x1, %x0, 8; st.global.u32 [%x1], %r0; ld.global.u32 %r1, [%out+128]; "
                     "st.global.u32 [%x0], %r0;",
                     32);
  REQUIRE(r.report.findings.size() == 2);
  CHECK(r.report.finished);
  const auto& f = r.report.findings[0];
  CHECK(f.fault == Fault::OutOfBounds);
  CHECK(f.ptx_line == 9);
  CHECK(f.times == 2);
  CHECK(f.thread == std::array<std::uint32_t, 3>{30, 0, 0});
  CHECK(f.message.find("small.ptx:9: out of bounds: st.global.u32 writes 4 bytes at 0x") == 0);
  CHECK(f.message.find("0 bytes past the end of out (128 bytes at 0x") != std::string::npos);
  CHECK(f.message.find("kernel k, block (0, 0, 0), thread (30, 0, 0)") != std::string::npos);
  CHECK(r.report.findings[1].times == 32);
  CHECK(r.out[5] == 5);

  CHECK(has(run_small("add.u64 %x1, %x0, 2; ld.global.u32 %r1, [%x1];", 8).report, Fault::Misaligned,
            "a multiple of 4"));
  CHECK(
      has(run_small("mov.u64 %x1, 0; ld.u32 %r1, [%x1+8];", 8).report, Fault::OutOfBounds, "a null pointer"));
  CHECK(has(run_small("mov.u32 %r1, 4096; ld.shared.u32 %r1, [%r1];", 8).report, Fault::OutOfBounds,
            "0 bytes of shared memory"));
  CHECK(has(
      run_small("mov.u64 %x1, table; st.global.u32 [%x1], 1;", 8, {}, ".const .u32 table[4] = {1, 2, 3, 4};")
          .report,
      Fault::ReadOnly, "table"));
  CHECK(has(run_small("bra L; L: trap;", 8).report, Fault::Trap));

  emulator::Options init;
  init.checks.uninitialised = true;
  const std::string shared = ".shared .align 4 .b8 s[256]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1;";
  CHECK(has(run_small(shared + "ld.shared.u32 %r3, [%r2];", 32, init).report, Fault::Uninitialised,
            "shared memory"));
  CHECK(run_small(shared + "st.shared.u32 [%r2], 1; ld.shared.u32 %r3, [%r2];", 32, init).report.ok());
  CHECK(has(
      run_small(
          "{.local .align 4 .b8 l[16]; mov.u64 %x1, l; st.local.u32 [%x1], 1; ld.local.u32 %r1, [%x1+4];}",
          32, init)
          .report,
      Fault::Uninitialised));
}

TEST_CASE("a use after free is reported", "[emulator]") {
  emulator::Gpu gpu({.arch = "sm_90a"});
  auto module = emulator::Module::parse(test::small_module("ld.global.u32 %r1, [%x0];"), "small.ptx");
  std::uint64_t x = gpu.allocate(64, "x");
  std::uint64_t words[] = {x, 0};
  gpu.free(x);
  auto r = gpu.launch(module, "k", {.block = {1}}, words);
  CHECK(has(r, Fault::UseAfterFree, "byte 0 of x (64 bytes"));
  CHECK_THROWS_AS(gpu.free(x), UserError);
}

TEST_CASE("functions: results, recursion that ends, and recursion that does not", "[emulator]") {
  const std::string fib = R"(
    .visible .func (.param .b32 result) fib(.param .b32 n)
    {
      .reg .b32 %r<8>; .reg .pred %p<2>; .local .align 4 .b8 kept[8]; .reg .b64 %x<2>;
      mov.u64 %x1, kept;
      ld.param.u32 %r1, [n]; st.local.u32 [%x1], %r1; setp.lt.u32 %p1, %r1, 2; @%p1 bra SMALL;
      sub.u32 %r2, %r1, 1;
      { .param .b32 a; st.param.b32 [a], %r2; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }
      ld.local.u32 %r1, [%x1]; sub.u32 %r2, %r1, 2;
      { .param .b32 a; st.param.b32 [a], %r2; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }
      add.u32 %r5, %r3, %r4; st.param.b32 [result], %r5; ret;
      SMALL: st.param.b32 [result], %r1; ret;
    })";
  auto r = run_small("{ .param .b32 a; st.param.b32 [a], %r0; .param .b32 b; call (b), fib, (a); "
                     "ld.param.b32 %r1, [b]; } st.global.u32 [%x0], %r1;",
                     12, {}, fib);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  const std::uint32_t expected[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (std::uint32_t t = 0; t < 12; ++t)
    CHECK(r.out[t] == expected[t]);
  const std::string endless = ".visible .func forever() { call forever; ret; }";
  r = run_small("call forever;", 32, {}, endless);
  CHECK(has(r.report, Fault::StackOverflow, "endless recursion"));
}

TEST_CASE("a branch through a table", "[emulator]") {
  auto r = run_small(R"(
      and.b32 %r1, %r0, 3;
      TABLE: .branchtargets A, B, C, A;
      brx.idx %r1, TABLE;
      A: mov.u32 %r2, 10; bra JOIN;
      B: mov.u32 %r2, 20; bra JOIN;
      C: mov.u32 %r2, 30;
      JOIN: st.global.u32 [%x0], %r2;)",
                     32);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  const std::uint32_t expected[] = {10, 20, 30, 10};
  for (std::uint32_t t = 0; t < 32; ++t)
    CHECK(r.out[t] == expected[t % 4]);
}

TEST_CASE("atomics of blocks and lanes add up", "[emulator]") {
  auto r = run_small(R"(
      atom.global.add.u32 %r1, [%out], 1;
      red.global.max.s32 [%out+4], %r0;
      cvt.rn.f32.u32 %f1, %r0; red.global.add.f32 [%out+8], %f1;
      mov.b32 %r3, 0x3c003c00; red.global.add.noftz.f16x2 [%out+12], %r3;
      atom.global.inc.u32 %r4, [%out+16], 9;
      .shared .align 4 .u32 s; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0;
      atom.shared.add.u32 %r5, [s], 2; bar.sync 0; ld.shared.u32 %r6, [s]; @%p1 red.global.add.u32 [%out+20], %r6;
      {.reg .b128 %w, %y, %z; .reg .b64 %a, %b; mov.b64 %a, 7; mov.b64 %b, 0; mov.b128 %y, {%b, %b}; mov.b128 %z, {%a, %b}; atom.global.cas.b128 %w, [%out+32], %y, %z;}
      )",
                     64, {.seed = 5}, "", {}, 16, 3);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  CHECK(r.out[0] == 192);
  CHECK(r.out[1] == 63);
  CHECK(std::bit_cast<float>(r.out[2]) == 3 * 63 * 32);
  CHECK(r.out[3] == 0x5a005a00); // 192 in f16
  CHECK(r.out[4] == 192 % 10);
  CHECK(r.out[5] == 3 * 128);
  CHECK(r.out[8] == 7);
}

TEST_CASE("cp.async lands between its issue and its wait, and fills with zeros", "[emulator]") {
  std::vector<std::uint32_t> in(64);
  for (std::uint32_t k = 0; k < 64; ++k)
    in[k] = 1000 + k;
  const std::string body = R"(
      .shared .align 16 .b8 s[512];
      ld.param.u64 %x1, [in]; mad.wide.u32 %x2, %r0, 16, %x1; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 16, %r1;
      setp.gt.u32 %p1, %r0, 7; selp.u32 %r3, 8, 16, %p1;
      cp.async.cg.shared.global [%r2], [%x2], 16, %r3; cp.async.commit_group;
      cp.async.wait_group WAIT;
      ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2];
      mad.wide.u32 %x3, %r0, 16, %out; st.global.v4.u32 [%x3], {%r4, %r5, %r6, %r7};)";
  auto with = [&](const std::string& n) {
    std::string s = body;
    return s.replace(s.find("WAIT"), 4, n);
  };
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    emulator::Options options{.seed = seed};
    options.checks.uninitialised = true;
    auto r = run_small(with("0"), 16, options, "", in, 64);
    INFO(r.report.text());
    REQUIRE(r.report.ok());
    for (std::uint32_t k = 0; k < 64; ++k)
      CHECK(r.out[k] == (k >= 32 && k % 4 >= 2 ? 0 : 1000 + k));
    options.asynchrony = emulator::Asynchrony::Latest; // nothing waits for the copies
    CHECK(has(run_small(with("1"), 16, options, "", in, 64).report, Fault::Uninitialised));
  }
}

TEST_CASE("ldmatrix loads matrices into the registers that mma reads", "[emulator]") {
  // 16x16 of A and 16x8 of B in f16, their product in f32.
  std::vector<std::uint32_t> in(128 + 64);
  auto half = [](int v) {
    return static_cast<std::uint32_t>(v == 0  ? 0
                                      : v < 0 ? 0x8000 | (0x3c00 + ((-v - 1) << 10))
                                              : 0x3c00 + ((v - 1) << 10));
  }; // 0, 1, 2 and signs
  auto a = [](int r, int c) { return (r * 7 + c * 3) % 5 - 2; };
  auto b = [](int r, int c) { return (r * 5 + c * 11) % 5 - 2; };
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c)
      in[static_cast<std::size_t>(r * 8 + c)] = half(a(r, 2 * c)) | half(a(r, 2 * c + 1)) << 16;
    for (int c = 0; c < 4; ++c)
      in[static_cast<std::size_t>(128 + r * 4 + c)] = half(b(r, 2 * c)) | half(b(r, 2 * c + 1)) << 16;
  }
  auto r = run_small(R"(
      .shared .align 16 .b8 s[768];
      ld.param.u64 %x1, [in]; mov.u32 %r1, s;
      mov.u32 %r2, %r0; COPY: mad.wide.u32 %x2, %r2, 4, %x1; ld.global.u32 %r3, [%x2]; mad.lo.u32 %r4, %r2, 4, %r1; st.shared.u32 [%r4], %r3;
      add.u32 %r2, %r2, 32; setp.lt.u32 %p1, %r2, 192; @%p1 bra COPY;
      bar.warp.sync -1;
      and.b32 %r5, %r0, 15; shr.u32 %r6, %r0, 4; mad.lo.u32 %r7, %r5, 32, %r1; mad.lo.u32 %r7, %r6, 16, %r7;
      ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
      mad.lo.u32 %r8, %r5, 16, %r1; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r8+512];
      mov.f32 %f0, 0f3F800000;
      mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f0, %f0, %f0};
      shr.u32 %r20, %r0, 2; and.b32 %r21, %r0, 3; mad.lo.u32 %r22, %r20, 8, 0; mad.lo.u32 %r22, %r21, 2, %r22; mad.wide.u32 %x3, %r22, 4, %out;
      st.global.v2.f32 [%x3], {%f1, %f2}; st.global.v2.f32 [%x3+256], {%f3, %f4};)",
                     32, {}, "", in, 128);
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      int sum = 1;
      for (int k = 0; k < 16; ++k)
        sum += a(row, k) * b(k, column);
      CHECK(std::bit_cast<float>(r.out[static_cast<std::size_t>(row * 8 + column)]) ==
            static_cast<float>(sum));
    }
}
