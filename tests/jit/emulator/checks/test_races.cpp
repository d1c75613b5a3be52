// Tests hand-written kernels with and without races, and what is reported of the races.
#include "jit/emulator/small_kernel.h"

#include <algorithm>

using namespace kiln;
using emulator::Fault;
using test::run_small;

namespace {

const std::string shared_words =
    ".shared .align 16 .b8 s[4096]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1;\n";

emulator::Report checked(const std::string& body, std::uint32_t threads, std::uint32_t blocks = 1,
                         const std::string& before = "") {
  emulator::Report last;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.checks = emulator::Checks::all();
    options.resident_blocks = static_cast<int>(blocks);
    options.instruction_budget = 1000000;
    last = run_small(body, threads, options, before, std::vector<std::uint32_t>(1024), 1024, blocks).report;
    if (!last.ok()) break;
  }
  return last;
}
bool only(const emulator::Report& r, Fault f) {
  // Memory that is read too early may be unwritten.
  return std::any_of(r.findings.begin(), r.findings.end(), [&](const auto& x) { return x.fault == f; }) &&
         std::all_of(r.findings.begin(), r.findings.end(),
                     [&](const auto& x) { return x.fault == f || x.fault == Fault::Uninitialised; });
}
#define CLEAN(...)                                                                                           \
  do {                                                                                                       \
    auto report = checked(__VA_ARGS__);                                                                      \
    INFO(report.text());                                                                                     \
    CHECK(report.ok());                                                                                      \
  } while (false)
#define FOUND(fault, ...)                                                                                    \
  do {                                                                                                       \
    auto report = checked(__VA_ARGS__);                                                                      \
    INFO(report.text());                                                                                     \
    CHECK(only(report, fault));                                                                              \
  } while (false)

} // namespace

TEST_CASE("barriers order the accesses of a block, and no barrier does not", "[emulator]") {
  const std::string exchange = shared_words +
                               "st.shared.u32 [%r2], %r0; SYNC xor.b32 %r3, %r0, WHO; mad.lo.u32 %r4, "
                               "%r3, 4, %r1; ld.shared.u32 %r5, [%r4]; st.global.u32 [%x0], %r5;";
  auto with = [&](const std::string& sync, const std::string& who) {
    std::string s = exchange;
    s.replace(s.find("SYNC"), 4, sync);
    return s.replace(s.find("WHO"), 3, who);
  };
  CLEAN(with("bar.sync 0;", "64"), 128);
  CLEAN(with("barrier.sync 3;", "64"), 128);
  CLEAN(with("bar.sync 2, 128;", "1"), 128);
  CLEAN(with("bar.warp.sync 0xffffffff;", "5"), 128);
  CLEAN(with("shfl.sync.bfly.b32 %r9, %r0, 1, 31, 0xffffffff;", "5"), 128);
  CLEAN(with("", "0"), 128); // a thread's own word
  FOUND(Fault::RaceShared, with("", "64"), 128);
  FOUND(Fault::RaceShared, with("", "1"), 32); // between lanes of one warp
  FOUND(Fault::RaceShared, with("bar.warp.sync 0xffffffff;", "32"), 64);
  auto report = checked(with("", "64"), 128);
  const auto& f = report.findings.back();
  REQUIRE(f.fault == Fault::RaceShared);
  REQUIRE(f.other);
  CHECK(f.thread[0] / 64 != f.other->thread[0] / 64);
  CHECK((f.message + f.other->what).find("st.shared.u32") != std::string::npos);
}

TEST_CASE("a barrier between reading and overwriting", "[emulator]") {
  const std::string rotate = shared_words + R"(st.shared.u32 [%r2], %r0; bar.sync 0;
      xor.b32 %r3, %r0, 33; mad.lo.u32 %r4, %r3, 4, %r1; ld.shared.u32 %r5, [%r4]; SYNC
      st.shared.u32 [%r2], %r5; bar.sync 0; ld.shared.u32 %r6, [%r4];  st.global.u32 [%x0], %r6;)";
  auto with = [&](const std::string& sync) {
    std::string s = rotate;
    return s.replace(s.find("SYNC"), 4, sync);
  };
  CLEAN(with("bar.sync 0;"), 128);
  FOUND(Fault::RaceShared, with(""), 128);
  FOUND(Fault::RaceShared, with("bar.warp.sync -1;"), 128);
}

TEST_CASE("parts of words are distinguished", "[emulator]") {
  CLEAN(shared_words +
            "add.u32 %r3, %r1, %r0; cvt.u16.u32 %s1, %r0; st.shared.u8 [%r3], %s1; ld.shared.u8 %s2, [%r3]; "
            "mul.lo.u32 %r4, %r0, 2; add.u32 %r4, %r4, %r1; st.shared.u16 [%r4+2048], %s1;",
        128);
  FOUND(Fault::RaceShared,
        shared_words +
            "add.u32 %r3, %r1, %r0; cvt.u16.u32 %s1, %r0; st.shared.u16 [%r2], %s1; st.shared.u8 [%r3], 7;",
        64);
}

TEST_CASE("many threads may write one value, and not different ones", "[emulator]") {
  CLEAN(shared_words + "mov.u32 %r3, 7; st.shared.u32 [%r1], %r3; bar.sync 0; ld.shared.u32 %r4, [%r1];",
        128);
  FOUND(Fault::RaceShared, shared_words + "st.shared.u32 [%r1], %r0;", 32);
  FOUND(Fault::RaceShared, shared_words + "shr.u32 %r3, %r0, 5; st.shared.u32 [%r1], %r3;", 64);
  FOUND(Fault::RaceShared,
        shared_words + "mov.u32 %r3, 7; st.shared.u32 [%r1], %r3; ld.shared.u32 %r4, [%r1];", 128);
}

TEST_CASE("blocks are ordered by nothing but releases and acquires", "[emulator]") {
  CLEAN("mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 128, %r0; mad.wide.u32 %x1, %r2, 4, %out; st.global.u32 "
        "[%x1], %r2;",
        128, 4);
  FOUND(Fault::RaceGlobal, "mov.u32 %r1, %ctaid.x; st.global.u32 [%x0], %r1;", 128, 4);
  CLEAN("mov.u32 %r1, %ctaid.x; red.global.add.u32 [%out], %r1;", 128, 4);
  FOUND(Fault::RaceGlobal, "mov.u32 %r1, %ctaid.x; red.relaxed.cta.global.add.u32 [%out], %r1;", 128, 4);
  FOUND(Fault::RaceGlobal, "red.global.add.u32 [%out], 1; ld.global.u32 %r1, [%out];", 32, 2);
  // Block 0 writes and sets a flag in `in`; block 1 waits for the flag and reads.
  const std::string flag =
      R"(ld.param.u64 %x1, [in]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r0, 0;
      @%p1 bra READER; st.global.u32 [%x0], %r0; BEFORE @!%p2 bra END; RAISE bra END;
      READER: @!%p2 bra SEEN; SPIN: WAIT setp.eq.u32 %p3, %r2, 0; @%p3 bra SPIN; AFTER SEEN: bar.sync 0;
      xor.b32 %r3, %r0, 1; mad.wide.u32 %x2, %r3, 4, %out; ld.global.u32 %r4, [%x2]; END:)";
  auto with = [&](const char* before, const char* raise, const char* wait, const char* after) {
    std::string s = flag;
    s.replace(s.find("BEFORE"), 6, before);
    s.replace(s.find("RAISE"), 5, raise);
    s.replace(s.find("WAIT"), 4, wait);
    return s.replace(s.find("AFTER"), 5, after);
  };
  CLEAN(
      with("bar.sync 0;", "st.release.gpu.global.u32 [%x1], 1;", "ld.acquire.gpu.global.u32 %r2, [%x1];", ""),
      64, 2);
  CLEAN(with("bar.sync 0;", "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%x1], 1;",
             "ld.relaxed.gpu.global.u32 %r2, [%x1];", "fence.acq_rel.gpu;"),
        64, 2);
  CLEAN(with("membar.gl; bar.sync 0;", "st.volatile.global.u32 [%x1], 1;",
             "ld.volatile.global.u32 %r2, [%x1];", "membar.gl;"),
        64, 2);
  CLEAN(with("bar.sync 0;", "atom.release.gpu.global.exch.b32 %r9, [%x1], 1;",
             "atom.acquire.gpu.global.or.b32 %r2, [%x1], 0;", ""),
        64, 2);
  FOUND(Fault::RaceGlobal,
        with("", "st.release.gpu.global.u32 [%x1], 1;", "ld.acquire.gpu.global.u32 %r2, [%x1];", ""), 64, 2);
  FOUND(
      Fault::RaceGlobal,
      with("bar.sync 0;", "st.relaxed.gpu.global.u32 [%x1], 1;", "ld.acquire.gpu.global.u32 %r2, [%x1];", ""),
      64, 2);
  FOUND(
      Fault::RaceGlobal,
      with("bar.sync 0;", "st.release.gpu.global.u32 [%x1], 1;", "ld.relaxed.gpu.global.u32 %r2, [%x1];", ""),
      64, 2);
  FOUND(
      Fault::RaceGlobal,
      with("bar.sync 0;", "st.release.cta.global.u32 [%x1], 1;", "ld.acquire.gpu.global.u32 %r2, [%x1];", ""),
      64, 2);
  FOUND(Fault::RaceGlobal,
        with("bar.sync 0;", "fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%x1], 1;",
             "ld.relaxed.gpu.global.u32 %r2, [%x1];", "fence.acq_rel.gpu;"),
        64, 2);
  FOUND(Fault::RaceGlobal, with("bar.sync 0;", "st.global.u32 [%x1], 1;", "ld.global.u32 %r2, [%x1];", ""),
        64, 2);
}

TEST_CASE("a plain load that only guesses for a compare-and-swap is no race", "[emulator]") {
  // All threads increment a word.
  const std::string loop = R"(ld.param.u64 %x1, [in]; LOAD mov.u32 %r2, 0;
      AGAIN: mov.u32 %r3, %r1; add.u32 %r4, %r3, 1; INSIDE
      atom.global.cas.b32 %r1, [%x1], %r3, %r4; setp.ne.u32 %p1, %r3, %r1; @%p1 bra AGAIN;
      AFTER st.global.u32 [%x0], %r5;)",
                    load = "ld.global.u32 %r1, [%x1];";
  auto with = [&](const std::string& ld, const std::string& inside, const std::string& after) {
    std::string s = loop;
    s.replace(s.find("LOAD"), 4, ld);
    s.replace(s.find("INSIDE"), 6, inside);
    return s.replace(s.find("AFTER"), 5, after);
  };
  const std::string zero = "mov.u32 %r5, 0;";
  CLEAN(with(load, "", zero), 64);
  CLEAN(with(load, "", "mov.u32 %r5, %r1;"), 64); // uses what the swap found
  CLEAN(with(load, "", "mov.u32 %r5, %r3;"), 64); // uses the guess once the swap has confirmed it
  CLEAN(with(load, "", "mov.u32 %r5, %r4;"), 64); // uses a value computed from it
  CLEAN(with("ld.relaxed.gpu.global.u32 %r1, [%x1];", "add.u32 %r2, %r2, %r3;", "mov.u32 %r5, %r2;"), 64);
  FOUND(Fault::RaceGlobal, with(load, "", "") + " ld.global.u32 %r6, [%x1];", 64);         // has another load
  FOUND(Fault::RaceGlobal, with(load + "mov.u32 %r7, %r1;", "", "mov.u32 %r5, %r7;"), 64); // stores the guess
  // It stores a sum of guesses.
  FOUND(Fault::RaceGlobal, with(load, "add.u32 %r2, %r2, %r3;", "mov.u32 %r5, %r2;"), 64);
  FOUND(Fault::RaceGlobal, with(load, "st.global.u32 [%x0], %r3;", zero), 64);
  FOUND(Fault::RaceGlobal, with(load, "setp.gt.u32 %p2, %r3, 1000; @%p2 bra END;", zero) + " END:", 64);
  FOUND(Fault::RaceGlobal,
        with(load, "and.b32 %r6, %r3, 3; mad.wide.u32 %x5, %r6, 4, %x1; ld.global.u32 %r6, [%x5+64];", zero),
        64); // uses it as an address
  FOUND(Fault::RaceGlobal,
        with("ld.global.u32 %r1, [%x1+4]; add.u64 %x4, %x1, 4; red.global.add.u32 [%x4], 1;", "", zero),
        64); // loads another word than the swap
  FOUND(Fault::RaceGlobal, with(load + "setp.eq.u32 %p3, %r0, 0; @%p3 st.global.u32 [%x1], 7;", "", zero),
        64);
  // The swap compares with another value.
  FOUND(Fault::RaceGlobal, with("ld.global.u32 %r1, [%x1]; add.u32 %r1, %r1, 1;", "", zero), 64);
}

TEST_CASE("a read through the non-coherent cache of what the kernel wrote is reported", "[emulator]") {
  const std::string body = R"(ld.param.u64 %x1, [in]; mad.wide.u32 %x1, %r0, 4, %x1; WRITE bar.sync 0;
      ld.global.nc.u32 %r1, [%x1]; st.global.u32 [%x0], %r1;)";
  auto with = [&](const std::string& write) {
    std::string s = body;
    return s.replace(s.find("WRITE"), 5, write);
  };
  CLEAN(with(""), 64);
  CLEAN(with("ld.global.u32 %r2, [%x1];"), 64);
  CLEAN(with("st.global.u32 [%x1+256], %r0;"), 64);
  FOUND(Fault::NonCoherent, with("st.global.u32 [%x1], %r0;"), 64);
  FOUND(Fault::NonCoherent, with("red.global.add.u32 [%x1], 1;"), 64);
  FOUND(Fault::NonCoherent, with("st.global.u32 [%x1], %r0; fence.acq_rel.gpu;"), 64);
}

TEST_CASE("volatile accesses of one word do not race, and order nothing else", "[emulator]") {
  // In the memory model they are relaxed, with the scope of the system. Warp 0 announces to warp 1 that its
  // numbers are written.
  const std::string flag = shared_words + R"(
      setp.eq.u32 %p1, %r0, 0; mov.u32 %r3, 0; @%p1 st.volatile.shared.u32 [%r1+2048], %r3; bar.sync 0;
      setp.ge.u32 %p2, %r0, 32; @%p2 bra READER;
      st.shared.u32 [%r2], %r0; bar.warp.sync -1; BEFORE mov.u32 %r3, 1; @%p1 RAISE [%r1+2048], %r3; bra END;
      READER: SPIN: WAIT %r4, [%r1+2048]; setp.eq.u32 %p3, %r4, 0; @%p3 bra SPIN; AFTER
      DATA END:)";
  auto with = [&](std::string before, std::string raise, std::string wait, std::string after,
                  std::string data) {
    std::string s = flag;
    s.replace(s.find("BEFORE"), 6, before);
    s.replace(s.find("RAISE"), 5, raise);
    s.replace(s.find("WAIT"), 4, wait);
    s.replace(s.find("AFTER"), 5, after);
    return s.replace(s.find("DATA"), 4, data);
  };
  const std::string st = "st.volatile.shared.u32", ld = "ld.volatile.shared.u32",
                    read = "add.u32 %r5, %r2, -128; ld.shared.u32 %r6, [%r5];";
  CLEAN(with("", st, ld, "", ""), 64); // only the flag is shared
  CLEAN(with("membar.cta;", st, ld, "membar.cta;", read), 64);
  FOUND(Fault::RaceShared, with("", st, ld, "", read), 64);
  FOUND(Fault::RaceShared, with("membar.cta;", st, ld, "", read), 64);
  FOUND(Fault::RaceShared, with("", st, ld, "membar.cta;", read), 64);
  // A plain write of the flag.
  FOUND(Fault::RaceShared, with("membar.cta;", "st.shared.u32", ld, "membar.cta;", ""), 64);
  // A plain read of the flag.
  FOUND(Fault::RaceShared, with("membar.cta;", st, "ld.shared.u32", "membar.cta;", ""), 64);
}
