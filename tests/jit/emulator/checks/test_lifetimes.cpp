// Tests the lifetimes of mbarriers, of their memory, and of the sources of bulk copies at the end of a block.
#include "jit/emulator/hopper.h"
#include "jit/emulator/small_kernel.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;
using emulator::Fault;
using emulator::Options;

namespace {

bool has(const emulator::Report& r, Fault f, const std::string& text = "") {
  return std::any_of(r.findings.begin(), r.findings.end(), [&](const emulator::Finding& x) {
    return x.fault == f && x.message.find(text) != std::string::npos;
  });
}

std::string replaced(std::string s, const std::string& from, const std::string& to) {
  const auto at = s.find(from);
  REQUIRE(at != std::string::npos);
  return s.replace(at, from.size(), to);
}

// Runs `body` in one block, with 1 KiB of shared memory at %r1 and an mbarrier at %r3.
emulator::Report of_block(const std::string& body, const Options& o, std::uint32_t threads = 32) {
  return run_small(
             ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar; mov.u32 %r1, s; mov.u32 %r3, bar; "
             "setp.eq.u32 %p0, %r0, 0;\n" +
                 body,
             threads, o, "", std::vector<std::uint32_t>(1024, 7), 1024)
      .report;
}

} // namespace

TEST_CASE("a bulk store whose source is not waited for before the block ends is always reported",
          "[emulator]") {
  const std::string store = R"(
      mad.lo.u32 %r4, %r0, 4, %r1; st.shared.u32 [%r4], %r0; fence.proxy.async.shared::cta; bar.sync 0;
      @!%p0 bra DONE;
      cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 128;
      COMMIT WAIT
      DONE:)";
  auto with = [&](const std::string& commit, const std::string& wait) {
    return replaced(replaced(store, "COMMIT", commit), "WAIT", wait);
  };
  const std::string commit = "cp.async.bulk.commit_group;";
  for (const bool races : {false, true})
    at_all_moments(
        [&](Options o) {
          o.checks.races = races;
          auto check = [&](const std::string& body, bool clean) {
            const auto report = of_block(body, o);
            INFO(report.text() << body);
            CHECK(report.ok() == clean);
            CHECK(has(report, Fault::Unfinished, "cp.async.bulk.global") == !clean);
          };
          check(with(commit, "cp.async.bulk.wait_group.read 0;"), true);
          check(with(commit, "cp.async.bulk.wait_group 0;"), true);
          check(with(commit, ""), false);
          check(with("", "cp.async.bulk.wait_group.read 0;"), false); // its group is open
          check(with(commit, "cp.async.bulk.wait_group.read 1;"), false);
          check(with(commit + commit, "cp.async.bulk.wait_group.read 1;"), true); // the later one is empty
        },
        8);
}

TEST_CASE("a bulk load that is not waited for before the block ends is always reported", "[emulator]") {
  const std::string load = R"(
      @%p0 mbarrier.init.shared::cta.b64 [%r3], 1; bar.sync 0; ld.param.u64 %x1, [in]; @!%p0 bra OTHERS;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%x1], 128, [%r3];
      OTHERS: WAIT)";
  at_all_moments(
      [&](const Options& o) {
        auto check = [&](const std::string& wait, bool clean) {
          const auto report = of_block(replaced(load, "WAIT", wait), o);
          INFO(report.text() << wait);
          CHECK(report.ok() == clean);
          CHECK(has(report, Fault::Unfinished, "cp.async.bulk.shared") == !clean);
        };
        const std::string loop =
            "SPIN: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra SPIN;";
        check(loop, true);
        check("@!%p0 bra DONE; " + loop + " DONE:", true); // one thread is enough
        check("", false);
        // This tests the phase before.
        check("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r3], 1;", false);
      },
      8);
}

TEST_CASE("the memory of an mbarrier is its own until it is invalidated", "[emulator]") {
  const std::string init = "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1; bar.sync 0;\n",
                    inval = "@%p0 mbarrier.inval.shared::cta.b64 [%r3]; bar.sync 0;\n";
  at_all_moments([&](const Options& o) {
    auto clean = [&](const std::string& body) {
      const auto report = of_block(body, o);
      INFO(report.text() << body);
      CHECK(report.ok());
    };
    auto reported = [&](const std::string& body, const std::string& text) {
      const auto report = of_block(body, o);
      INFO(report.text() << body);
      CHECK(has(report, Fault::LiveMbarrier, text));
      CHECK(std::all_of(report.findings.begin(), report.findings.end(), [](const emulator::Finding& f) {
        // The data changes the byte count of the mbarrier.
        return f.fault == Fault::LiveMbarrier || f.fault == Fault::ByteCount;
      }));
    };
    clean(init);
    clean(init + inval + init);
    clean(init + inval + "@%p0 st.shared.u32 [%r3+4], 5; bar.sync 0; ld.shared.u32 %r4, [%r3+4];");
    clean(init + inval + "@%p0 red.shared.add.u32 [%r3+4], %r4;"); // updates what the mbarrier left there
    clean(init + "@%p0 st.shared.u32 [%r3+8], 5;");
    reported(init + init, "initialises what is the mbarrier that line ");
    reported(init + "@%p0 st.shared.u32 [%r3+4], 5;", "st.shared.u32 writes 4 bytes");
    reported(init + "ld.shared.u8 %r4, [%r3];", "ld.shared.u8 reads 1 bytes");
    reported(init + "@%p0 atom.shared.add.u32 %r4, [%r3], 0;", "atom.shared.add.u32 updates 4 bytes");
    reported(init +
                 "ld.param.u64 %x1, [in]; @%p0 cp.async.ca.shared.global [%r3], [%x1], 4; cp.async.wait_all;",
             "cp.async.ca.shared.global writes shared memory that is the mbarrier");
    reported(init + "mov.u64 %x5, 0; @%p0 st.shared.u64 [%r3+8], %x5; fence.proxy.async; @%p0 "
                    "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 16; "
                    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
             "reads shared memory that is the mbarrier");
  });
}

TEST_CASE("other blocks know of an mbarrier by a release, or by a fence of initialisations", "[emulator]") {
  // Each of two blocks arrives at the other's mbarrier, and sends 128 bytes there.
  const std::string
      text = R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32 .explicitcluster .reqnctapercluster 2, 1, 1
{
  .reg .b32 %r<16>; .reg .b64 %x<8>; .reg .pred %p<4>;
  .shared .align 16 .b8 from[128]; .shared .align 16 .b8 to[128]; .shared .align 8 .b64 bar;
  ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, from; mov.u32 %r2, to; mov.u32 %r3, bar; setp.eq.u32 %p0, %r0, 0;
  mov.u32 %r4, %cluster_ctarank; mad.lo.u32 %r6, %r0, 4, %r1; st.shared.u32 [%r6], %r0; fence.proxy.async; bar.sync 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r3], 2; FENCE
  ARRIVE barrier.cluster.wait.aligned;
  xor.b32 %r7, %r4, 1; mapa.shared::cluster.u32 %r8, %r2, %r7; mapa.shared::cluster.u32 %r9, %r3, %r7;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
  ACT
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra WAIT;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ret;
})",
      arrive = "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n",
      send = "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r1], "
             "128, [%r9];\n",
      fence = "@%p0 fence.mbarrier_init.release.cluster;",
      relaxed = "barrier.cluster.arrive.relaxed.aligned;", releases = "barrier.cluster.arrive.aligned;";
  auto found = [&](const std::string& f, const std::string& a, const std::string& act, const Options& o) {
    emulator::Gpu gpu(o);
    const std::uint64_t words[] = {gpu.allocate(256)};
    return gpu.launch(
        hopper_module(replaced(replaced(replaced(text, "FENCE", f), "ARRIVE", a), "ACT", act), o.seed == 0),
        "k", {.grid = {2}, .block = {32}}, words);
  };
  at_all_moments([&](const Options& o) {
    auto clean = [&](const std::string& f, const std::string& a) {
      const auto report = found(f, a, arrive + send, o);
      INFO(report.text() << f << a);
      CHECK(report.ok());
    };
    clean(fence, relaxed); // as CUTLASS does
    clean(fence, releases);
    clean("", releases);
    clean("fence.acq_rel.cluster;", relaxed);
    auto reported = [&](const std::string& f, const std::string& act) {
      const auto report = found(f, relaxed, act, o);
      INFO(report.text() << f << act);
      CHECK(has(report, Fault::RaceShared, "write by mbarrier.init"));
    };
    reported("", arrive + send);
    // The fence is another thread's.
    reported("bar.sync 0; setp.eq.u32 %p2, %r0, 1; @%p2 fence.mbarrier_init.release.cluster;", send);
    reported("", send + arrive);
    reported("@%p0 fence.acq_rel.cta;", arrive + send);
    // The fence releases initialisations, and not other writes.
    const auto report = found("@%p0 st.shared.u32 [%r2], 5; " + fence, relaxed,
                              arrive + send +
                                  "ld.shared::cluster.u32 %r10, [%r8+4];"
                                  "@%p0 ld.shared::cluster.u32 %r10, [%r8];",
                              o);
    INFO(report.text());
    CHECK(has(report, Fault::RaceShared, "st.shared.u32"));
  });
}

TEST_CASE("a cp.async reads no more of its source than it copies", "[emulator]") {
  at_all_moments([&](const Options& o) {
    for (const std::uint32_t size : {0u, 4u, 16u, 17u}) {
      const auto report =
          of_block("mov.u32 %r5, " + std::to_string(size) +
                       "; ld.param.u64 %x1, [in]; mad.wide.u32 %x1, %r0, 16, %x1; mad.lo.u32 %r4, %r0, "
                       "16, %r1; cp.async.cg.shared.global [%r4], [%x1], 16, %r5; cp.async.wait_all;",
                   o);
      INFO(report.text() << size);
      CHECK(report.ok() == (size <= 16));
      CHECK(has(report, Fault::IllegalOperand, "reads 17 bytes of its source for a copy of 16") ==
            (size > 16));
    }
  });
}
