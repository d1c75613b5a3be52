// Tests st.async and red.async between the blocks of a cluster, and discard.
#include "jit/emulator/hopper.h"
#include "jit/emulator/small_kernel.h"
#include "one_instruction.h"
#include "test_seed.h"

#include <kiln/dsl/error.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

// Two blocks of 32 threads. Each fills `mine` (256 bytes) with `before`, sends to the other block by `act`,
// and stores what it received. %r2 is the address of thread t's 8 bytes in the other block, and %r3 that of
// its mbarrier.
std::string exchange(const std::string& act, int bytes, const std::string& wait = "") {
  return R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 before) .reqnctapercluster 2
{
  .reg .b32 %r<24>; .reg .b64 %x<12>; .reg .pred %p<4>; .reg .f32 %f<4>;
  .shared .align 16 .b8 mine[512]; .shared .align 8 .b64 bar;
  ld.param.u64 %x1, [out]; ld.param.u64 %x2, [before]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;
  mad.lo.u32 %r20, %r1, 32, %r0; // number among all threads
  mov.u32 %r10, mine; mov.u32 %r11, bar; mad.lo.u32 %r12, %r0, 8, %r10;
  mad.wide.u32 %x3, %r20, 8, %x1; mad.wide.u32 %x4, %r20, 8, %x2; ld.global.u64 %x5, [%x4]; st.shared.u64 [%r12], %x5;
  st.shared.u64 [%r12+256], %x5;
  setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
  mbarrier.init.shared.b64 [%r11], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r11], )" +
         std::to_string(bytes * 32) + R"(;
READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  xor.b32 %r13, %r1, 1; mapa.shared::cluster.u32 %r2, %r12, %r13; mapa.shared::cluster.u32 %r3, %r11, %r13;
  mapa.shared::cluster.u32 %r4, %r10, %r13;
  cvt.u64.u32 %x6, %r20; mul.lo.u64 %x6, %x6, 0x100000003; cvt.u32.u64 %r5, %x6;
  )" + act +
         "\n" +
         (wait.empty() ? "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r11], 0; "
                         "@!%p1 bra WAIT;"
                       : wait) +
         R"(
  ld.shared.u64 %x7, [%r12]; st.global.u64 [%x3], %x7;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ret;
})";
}

struct Exchanged {
  Report report;
  std::vector<std::uint64_t> out;
};
Exchanged run(const std::string& text, const std::vector<std::uint64_t>& before, const Options& o) {
  Gpu gpu(o);
  const std::uint64_t words[] = {on_gpu(gpu, std::vector<std::uint64_t>(64), "out"),
                                 on_gpu(gpu, before, "before")};
  Exchanged e;
  e.report = gpu.launch(hopper_module(text, o.asynchrony == Asynchrony::Earliest), "k",
                        {.grid = {2}, .block = {32}}, words);
  e.out = from_gpu<std::uint64_t>(gpu, words[0], 64);
  return e;
}

constexpr const char* to = ".shared::cluster.mbarrier::complete_tx::bytes.";

std::vector<std::uint64_t> some(std::mt19937_64& random) {
  std::vector<std::uint64_t> v(64);
  for (auto& x : v)
    x = random_bits(random, 32, false) << 32 | random_bits(random, 32, false);
  return v;
}

} // namespace

TEST_CASE("st.async stores into the other block and its mbarrier counts the bytes", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto before = some(random);
  struct Case {
    std::string type, value;
    int bytes;
  };
  for (const Case& c : {Case{"b64", "%x6", 8}, Case{"weak b64", "%x6", 8}, Case{"u32", "%r5", 4},
                        Case{"v2.s32", "{%r5, %r20}", 8}}) {
    const bool weak = c.type.substr(0, 5) == "weak ";
    const std::string text =
        exchange(std::string("st.async") + (weak ? ".weak" : "") + to + (weak ? c.type.substr(5) : c.type) +
                     " [%r2], " + c.value + ", [%r3];",
                 c.bytes);
    CAPTURE(c.type);
    at_all_moments([&](const Options& o) {
      const auto e = run(text, before, o);
      INFO(e.report.text());
      REQUIRE(e.report.ok());
      for (std::uint64_t t = 0; t < 64; ++t) {
        const std::uint64_t from = t ^ 32, sent = from * 0x100000003;
        const std::uint64_t expected = c.bytes == 4       ? (before[t] >> 32 << 32) | (sent & 0xffffffff)
                                       : c.type[0] == 'v' ? from << 32 | (sent & 0xffffffff)
                                                          : sent;
        CHECK(e.out[t] == expected);
      }
    });
  }
  // Four words at once, to the first half of the memory, and generic addresses.
  const std::string four = exchange(
      "mad.lo.u32 %r6, %r0, 8, %r2; cvt.u64.u32 %x8, %r2; "
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r5, %r20, %r0, %r1}, [%r3];",
      16);
  at_all_moments([&](const Options& o) {
    const auto e = run(four, before, o);
    INFO(e.report.text());
    REQUIRE(e.report.ok());
    for (std::uint64_t t = 0; t < 64; ++t) {
      const std::uint64_t from = (t ^ 32) / 32 * 32 + t % 32 / 2;
      CHECK(e.out[t] == (t % 2 ? (from / 32) << 32 | from % 32 : from << 32 | from * 3));
    }
  });
}

TEST_CASE("red.async updates the other block's memory", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto before = some(random);
  using F = std::uint32_t (*)(std::uint32_t, std::uint32_t);
  const std::pair<const char*, F> updates[] = {
      {"add.u32", [](std::uint32_t a, std::uint32_t b) { return a + b; }},
      {"add.s32", [](std::uint32_t a, std::uint32_t b) { return a + b; }},
      {"min.u32", [](std::uint32_t a, std::uint32_t b) { return std::min(a, b); }},
      {"max.s32",
       [](std::uint32_t a, std::uint32_t b) {
         return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b) ? a : b;
       }},
      {"inc.u32", [](std::uint32_t a, std::uint32_t b) { return a >= b ? 0 : a + 1; }},
      {"dec.u32", [](std::uint32_t a, std::uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
      {"and.b32", [](std::uint32_t a, std::uint32_t b) { return a & b; }},
      {"or.b32", [](std::uint32_t a, std::uint32_t b) { return a | b; }},
      {"xor.b32", [](std::uint32_t a, std::uint32_t b) { return a ^ b; }}};
  for (const auto& [name, wanted] : updates) {
    CAPTURE(name);
    const std::string text =
        exchange(std::string("red.async.relaxed.cluster") + to + name + " [%r2], %r5, [%r3];", 4);
    at_all_moments(
        [&](const Options& o) {
          const auto e = run(text, before, o);
          INFO(e.report.text());
          REQUIRE(e.report.ok());
          for (std::uint64_t t = 0; t < 64; ++t)
            CHECK(e.out[t] == (before[t] >> 32 << 32 | wanted(static_cast<std::uint32_t>(before[t]),
                                                              static_cast<std::uint32_t>((t ^ 32) * 3))));
        },
        1);
  }
  // All lanes update one word of 64 bits.
  const std::string sum =
      exchange(std::string("red.async.relaxed.cluster") + to + "add.u64 [%r4], %x6, [%r3];", 8);
  at_all_moments([&](const Options& o) {
    const auto e = run(sum, before, o);
    INFO(e.report.text());
    REQUIRE(e.report.ok());
    for (std::uint64_t b = 0; b < 2; ++b) {
      std::uint64_t expected = before[b * 32];
      for (std::uint64_t t = 0; t < 32; ++t)
        expected += ((1 - b) * 32 + t) * 0x100000003;
      CHECK(e.out[b * 32] == expected);
      CHECK(e.out[b * 32 + 5] == before[b * 32 + 5]);
    }
  });
}

TEST_CASE("misuse of remote stores is reported", "[emulator]") {
  const std::vector<std::uint64_t> before(64, 1);
  Options o;
  o.arch = "sm_90a";
  o.checks = Checks::all();
  o.asynchrony = Asynchrony::Latest;
  auto finds = [&](const std::string& text, Fault fault, const char* what) {
    const auto e = run(text, before, o);
    INFO(e.report.text());
    const auto& all = e.report.findings;
    CHECK(std::any_of(all.begin(), all.end(), [&](const Finding& f) {
      return f.fault == fault && f.message.find(what) != std::string::npos;
    }));
  };
  const std::string store = std::string("st.async") + to + "b64 [%r2], %x6, [%r3];";
  // no thread waits
  finds(exchange(store, 8, "nop_label: mov.u32 %r9, 0;"), Fault::InFlight,
        "where an asynchronous copy has not landed yet");
  finds(exchange(std::string("st.async") + to + "b64 [%r2], %x6, [%r11];", 8, "mov.u32 %r9, 0;"),
        Fault::IllegalOperand, "writes shared memory of one block and counts on an mbarrier of another");
  finds(exchange(std::string("st.async") + to + "b64 [%r2+4], %x6, [%r3];", 8), Fault::Misaligned,
        "where a multiple of 8 is needed");
  finds(exchange(std::string("st.async") + to + "b64 [%r2], %x6, [%r2];", 8), Fault::IllegalOperand,
        "no mbarrier");
  finds(exchange("st.async.mbarrier::complete_tx::bytes.b64 [%x3], %x6, [%x3];", 8, "mov.u32 %r9, 0;"),
        Fault::IllegalOperand, "requires addresses of shared memory");
  auto refused = [&](const std::string& act, const char* why) {
    o.asynchrony = Asynchrony::Latest; // ptxas refuses them as well
    CHECK_THROWS_WITH(run(exchange(act, 8), before, o), Catch::Contains(why));
  };
  refused("st.async.release.gpu.global.u32 [%x3], %r5;", "the form that an mbarrier counts");
  refused(std::string("red.async.relaxed.cluster") + to + "min.u64 [%r2], %x6, [%r3];",
          "does not exist for .u64");
  refused(std::string("red.async.relaxed.cluster") + to + "and.u32 [%r2], %r5, [%r3];",
          "does not exist for .u32");
  refused(std::string("st.async") + to + "v4.b64 [%r2], {%x6, %x6, %x6, %x6}, [%r3];",
          "does not exist for .b64");
}

TEST_CASE("discarded bytes count as unwritten", "[emulator]") {
  const std::string text = "and.b64 %x1, %out, -128; setp.eq.u32 %p1, %r0, 0; st.global.u32 [%x0], %r0; "
                           "bar.sync 0; @%p1 discard.global.L2 [%x1], 128; "
                           "@%p1 applypriority.global.L2::evict_normal [%x1], 128; bar.sync 0; ";
  Options o;
  o.checks.uninitialised = true;
  const auto written = run_small(text + "st.global.u32 [%x0], 7; ld.global.u32 %r1, [%x0];", 32, o);
  INFO(written.report.text());
  CHECK(written.report.ok());
  const auto read = run_small(text + "ld.global.u32 %r1, [%x0];", 32, o);
  REQUIRE(read.report.findings.size() == 1);
  CHECK(read.report.findings[0].fault == Fault::Uninitialised);
  CHECK(read.report.findings[0].times == 32);
  const auto beyond = run_small("discard.L2 [%out+128], 128;", 32, o);
  REQUIRE(beyond.report.findings.size() == 1);
  CHECK(beyond.report.findings[0].fault == Fault::OutOfBounds);
  CHECK_THROWS_WITH(run_small("discard.global.L2 [%out], 64;", 32),
                    Catch::Contains("discard takes 128 bytes"));
  CHECK_THROWS_WITH(run_small("applypriority.global.L2::evict_normal [%out], 64;", 32),
                    Catch::Contains("applypriority takes 128 bytes"));
}
