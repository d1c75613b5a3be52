// Tests which lanes are reported for skipping an .aligned barrier: those that did something first.
#include "jit/emulator/small_kernel.h"

using namespace kiln;
using emulator::Fault;

namespace {

// In two warps, %p0 is true for the threads with an index below 10.
emulator::Report run(const std::string& body, std::uint64_t seed, const std::string& before = "") {
  emulator::Options o;
  o.seed = seed;
  o.checks = emulator::Checks::all();
  return test::run_small("setp.lt.u32 %p0, %r0, 10;\n" + body, 64, o, before).report;
}

void check_divergent(const std::string& body, const std::string& said, const std::string& before = "") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto report = run(body, seed, before);
    INFO(body << "\nseed " << seed << "\n" << report.text());
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].fault == Fault::BarrierDivergence);
    CHECK(report.findings[0].message.find(said) != std::string::npos);
  }
}
void check_clean(const std::string& body, const std::string& before = "") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto report = run(body, seed, before);
    INFO(body << "\nseed " << seed << "\n" << report.text());
    CHECK(report.ok());
  }
}

} // namespace

TEST_CASE("lanes that skip an aligned barrier and do something are reported", "[emulator]") {
  // The body starts at line 9.
  check_divergent(
      "@!%p0 bra REST;\nbar.sync 0;\nREST: st.global.u32 [%x0], %r0;",
      "small.ptx:11: barrier divergence: bar.sync requires all lanes of a warp, and only 0x3ff have "
      "arrived: lanes 0xfffffc00 took the other branch at line 10 and left the kernel at line 13; "
      "kernel k, block (0, 0, 0), thread (0, 0, 0)");
  // The lanes that skip it are first in the text.
  check_divergent("@%p0 bra COME;\nst.global.u32 [%x0], %r0;\nret;\nCOME: bar.sync 0;",
                  "lanes 0xfffffc00 took the other branch at line 10 and left the kernel at line 12");
  check_divergent("@%p0 bra COME;\nst.global.u32 [%x0], %r0;\nexit;\nCOME: barrier.cluster.arrive.aligned;\n"
                  "barrier.cluster.wait;",
                  "barrier.cluster.arrive.aligned requires all lanes");
  check_divergent("setp.eq.u32 %p1, %r0, 0;\n@%p0 bra COME;\natom.global.exch.b32 %r1, [%x0], 7;\nret;\n"
                  "COME: bar.red.popc.u32 %r1, 0, %p1;",
                  "bar.red.popc.u32 requires all lanes");
  check_divergent("@%p0 bra COME;\ncall act, ();\nret;\nCOME: bar.arrive 1, 64;",
                  "bar.arrive requires all lanes of a warp, and only 0x3ff",
                  ".shared .align 4 .b8 word[4];\n.func act() { st.volatile.shared.u32 [word], 1; ret; }");
}

TEST_CASE("lanes that leave a loop whose barrier others reach again are reported", "[emulator]") {
  check_divergent("mov.u32 %r1, %r0;\nLOOP: bar.sync 0;\nadd.u32 %r1, %r1, 8;\nsetp.lt.u32 %p1, %r1, 20;\n"
                  "@%p1 bra LOOP;",
                  "took the other branch at line 14 and left the kernel at line 15");
}

TEST_CASE("lanes that only exit do not skip a barrier", "[emulator]") {
  const std::string work = "\nst.global.u32 [%x0], %r0;\nbar.sync 0;\nbar.red.popc.u32 %r9, 0, %p0;\n"
                           "st.global.u32 [%x0], %r9;";
  check_clean("@!%p0 ret;" + work);
  check_clean("@!%p0 exit;" + work);
  check_clean("@!%p0 bra DONE;" + work + "\nDONE:");
  check_clean("@%p0 bra WORK;\nret;\nWORK:" + work);
  // x >= w || y >= h, and x >= w && y >= h
  check_clean("setp.lt.u32 %p1, %r0, 5; @!%p0 bra DONE;\n@%p1 bra DONE;" + work + "\nDONE:");
  check_clean("setp.ge.u32 %p1, %r0, 5; @%p0 bra WORK;\n@%p1 bra DONE;\nWORK:" + work + "\nDONE:");
  // In one of two branches that both do something and reconverge before the barrier.
  check_clean("setp.lt.u32 %p1, %r0, 5; setp.lt.u32 %p2, %r0, 3;\n@%p1 bra LEFT;\n"
              "st.global.u32 [%x0], 1;\nbra JOINED;\nLEFT: st.global.u32 [%x0], 2;\n@%p2 ret;\nJOINED:" +
              work);
  // From within a function, after a barrier that all lanes reached, and in a loop before its first barrier.
  check_clean("call check, ();" + work, ".func check() { .reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; "
                                        "setp.gt.u32 %p, %t, 50; @%p exit; ret; }");
  check_clean("st.global.u32 [%x0], 1;\nbar.sync 0;\n@!%p0 ret;" + work);
  check_clean("mov.u32 %r1, 0;\nLOOP: @!%p0 ret;\nbar.sync 0;\nst.global.u32 [%x0], %r1;\n"
              "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 bra LOOP;");
  // A branch after which all lanes reconverge.
  check_clean("@%p0 bra LEFT;\nst.global.u32 [%x0], 1;\nbra JOINED;\nLEFT: st.global.u32 [%x0], 2;\nJOINED:" +
              work);
  // Barriers that are not .aligned, and whole warps.
  check_clean("@!%p0 bra REST;\nbarrier.sync 1, 32;\nREST: st.global.u32 [%x0], %r0;\nsetp.lt.u32 %p1, %r0, "
              "32;\n@%p1 bra MORE;\nbar.sync 0, 32;\nMORE:");
}

TEST_CASE("threads arrive at the barrier of the cluster once, and wait once", "[emulator]") {
  check_clean("barrier.cluster.arrive; barrier.cluster.wait; barrier.cluster.arrive.aligned; "
              "barrier.cluster.wait.aligned;\nbarrier.cluster.arrive; ret;");
  check_divergent("barrier.cluster.arrive;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;",
                  "small.ptx:11: barrier divergence: barrier.cluster.arrive arrives again at the cluster's "
                  "barrier, without a barrier.cluster.wait after line 10, where it arrived before");
  check_divergent("barrier.cluster.arrive;\nbarrier.cluster.wait;\nbarrier.cluster.wait;",
                  "small.ptx:12: barrier divergence: barrier.cluster.wait waits at the cluster's barrier, "
                  "where it has not arrived since it last waited there");
}
