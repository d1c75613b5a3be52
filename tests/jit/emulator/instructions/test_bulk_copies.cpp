// Tests bulk copies and reductions without tensor maps, and mbarrier arrivals when copies have landed.
#include "jit/emulator/hopper.h"
#include "one_instruction.h"
#include "test_seed.h"

#include <kiln/jit/emulator/core/number.h>

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

// 32 threads copy 512 bytes of `in` to shared memory, and one of them executes `act`.
std::string kernel(const std::string& act) {
  return R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) .maxntid 32
{
  .reg .b32 %r<16>; .reg .b64 %x<8>; .reg .pred %p<4>;
  .shared .align 16 .b8 s[512];
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; cvta.to.global.u64 %x2, %x2; mov.u32 %r0, %tid.x; mov.u32 %r1, s;
  mad.wide.u32 %x3, %r0, 16, %x1; mad.lo.u32 %r2, %r0, 16, %r1; setp.eq.u32 %p0, %r0, 0;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%x3]; st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};
  fence.proxy.async.shared::cta; bar.sync 0;
)" + act +
         R"(
  ret;
})";
}

template <class T>
std::vector<T> run(const std::string& act, const std::vector<T>& in, std::vector<T> out, const Options& o,
                   bool clean = true) {
  Gpu gpu(o);
  const std::uint64_t words[] = {on_gpu(gpu, in, "in"), on_gpu(gpu, out, "out")};
  auto report = gpu.launch(hopper_module(kernel(act), o.asynchrony == Asynchrony::Earliest), "k",
                           {.block = {32}}, words);
  INFO(report.text() << act);
  CHECK(report.ok() == clean);
  return from_gpu<T>(gpu, words[1], out.size());
}

template <class T>
void reduces(const std::string& suffix, std::mt19937_64& random, T (*value)(std::uint64_t),
             T (*wanted)(T, T)) {
  std::vector<T> in(512 / sizeof(T)), out(in.size());
  for (std::size_t n = 0; n < in.size(); ++n)
    in[n] = value(random()), out[n] = value(random());
  at_all_moments(
      [&](const Options& o) {
        const auto found =
            run("  @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group." + suffix +
                    " [%x2], [%r1], 512;\n  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
                in, out, o);
        for (std::size_t n = 0; n < in.size(); ++n)
          CHECK(found[n] == wanted(out[n], in[n]));
      },
      1);
}

} // namespace

TEST_CASE("bulk reductions update global memory element by element", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  using U = std::uint32_t;
  using S = std::int64_t;
  using H = std::uint16_t;
  auto bits = [](std::uint64_t r) { return static_cast<U>(r); };
  auto wide = [](std::uint64_t r) { return static_cast<S>(r); };
  auto half = [](std::uint64_t r) { return to_f16(static_cast<float>(static_cast<int>(r % 200) - 100)); };
  auto brain = [](std::uint64_t r) { return to_bf16(static_cast<float>(static_cast<int>(r % 100) - 50)); };
  reduces<U>("add.u32", random, bits, [](U a, U b) { return a + b; });
  reduces<U>("inc.u32", random, bits, [](U a, U b) { return a >= b ? 0 : a + 1; });
  reduces<U>("xor.b32", random, bits, [](U a, U b) { return a ^ b; });
  reduces<S>("min.s64", random, wide, [](S a, S b) { return std::min(a, b); });
  reduces<S>("max.s64", random, wide, [](S a, S b) { return std::max(a, b); });
  reduces<H>("add.noftz.f16", random, half, [](H a, H b) { return to_f16(from_f16(a) + from_f16(b)); });
  reduces<H>("max.bf16", random, brain, [](H a, H b) { return from_bf16(a) >= from_bf16(b) ? a : b; });
  reduces<float>(
      "add.f32", random, [](std::uint64_t r) { return static_cast<float>(r % 4096); },
      [](float a, float b) { return a + b; });
  reduces<double>(
      "add.f64", random, [](std::uint64_t r) { return static_cast<double>(r) * 0x1p-20; },
      [](double a, double b) { return a + b; });
}

TEST_CASE("a wait for reading frees the source of a bulk store, and not more", "[emulator]") {
  std::vector<std::uint32_t> in(128), out(128);
  for (std::uint32_t n = 0; n < 128; ++n)
    in[n] = n * n + 1;
  const std::string store =
                        "  @!%p0 bra SKIP;\n  cp.async.bulk.global.shared::cta.bulk_group [%x2], [%r1], 512; "
                        "cp.async.bulk.commit_group;\n",
                    change = "  mov.u32 %r9, 5; st.shared.u32 [%r1], %r9;\n", skip = "SKIP:\n";
  at_all_moments([&](const Options& o) {
    CHECK(run(store + "  cp.async.bulk.wait_group.read 0;\n" + change + "  cp.async.bulk.wait_group 0;\n" +
                  skip,
              in, out, o) == in);
    // It is no finding that a program ends while its writes are under way, if they no longer use shared
    // memory.
    CHECK(run(store + "  cp.async.bulk.wait_group.read 0;\n" + skip, in, out, o) == in);
    run(store + change + "  cp.async.bulk.wait_group 0;\n" + skip, in, out, o, false);
    if (o.asynchrony == Asynchrony::Latest) run(store + skip, in, out, o, false);
  });
}

TEST_CASE("an mbarrier is arrived at when the copies of its thread have landed", "[emulator]") {
  // Two warps: one copies and lets the mbarrier announce it, the other waits for the mbarrier.
  const std::string text = R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) .maxntid 64
{
  .reg .b32 %r<16>; .reg .b64 %x<8>; .reg .pred %p<4>;
  .shared .align 16 .b8 s[512]; .shared .align 8 .b64 bar;
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; cvta.to.global.u64 %x1, %x1; cvta.to.global.u64 %x2, %x2;
  mov.u32 %r0, %tid.x; and.b32 %r8, %r0, 31; mov.u32 %r1, s; mov.u32 %r3, bar; setp.eq.u32 %p0, %r0, 0; setp.ge.u32 %p1, %r0, 32;
  @%p0 mbarrier.init.shared::cta.b64 [%r3], COUNT; bar.sync 0;
  mad.wide.u32 %x3, %r8, 16, %x1; mad.lo.u32 %r2, %r8, 16, %r1; @%p1 bra WAIT;
  cp.async.cg.shared.global [%r2], [%x3], 16;
  cp.async.mbarrier.arrive.HOW.shared::cta.b64 [%r3];
  ARRIVE
  bra DONE;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]; mad.wide.u32 %x4, %r8, 16, %x2; st.global.v4.u32 [%x4], {%r4, %r5, %r6, %r7};
DONE:
  ret;
})";
  auto with = [](std::string s, const std::string& from, const std::string& to) {
    return s.replace(s.find(from), from.size(), to);
  };
  const std::string counted = with(with(with(text, "COUNT", "32"), ".HOW", ""), "ARRIVE",
                                   "mbarrier.arrive.shared::cta.b64 _, [%r3];"),
                    uncounted = with(with(with(text, "COUNT", "32"), "HOW", "noinc"), "ARRIVE", "");
  std::vector<std::uint32_t> in(128);
  for (std::uint32_t n = 0; n < 128; ++n)
    in[n] = 7 * n + 3;
  for (const std::string& t : {counted, uncounted}) {
    auto module = hopper_module(t);
    at_all_moments(
        [&](const Options& o) {
          Gpu gpu(o);
          const std::uint64_t words[] = {on_gpu(gpu, in), gpu.allocate(512)};
          auto report = gpu.launch(module, "k", {.block = {64}}, words);
          INFO(report.text());
          REQUIRE(report.ok());
          CHECK(from_gpu<std::uint32_t>(gpu, words[1], 128) == in);
        },
        6);
  }
}

TEST_CASE("bulk copies between blocks of a cluster, and a report of those that land too late", "[emulator]") {
  auto text = [](const std::string& wait) {
    return R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32 .explicitcluster .reqnctapercluster 2, 1, 1
{
  .reg .b32 %r<16>; .reg .b64 %x<8>; .reg .pred %p<4>;
  .shared .align 16 .b8 from[128]; .shared .align 16 .b8 to[128]; .shared .align 8 .b64 bar;
  ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, from; mov.u32 %r2, to; mov.u32 %r3, bar; setp.eq.u32 %p0, %r0, 0;
  mov.u32 %r4, %cluster_ctarank; mad.lo.u32 %r5, %r4, 1000, %r0; mad.lo.u32 %r6, %r0, 4, %r1; st.shared.u32 [%r6], %r5;
  @%p0 mbarrier.init.shared::cta.b64 [%r3], 1; @%p0 fence.mbarrier_init.release.cluster;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
  fence.proxy.async; bar.sync 0;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  xor.b32 %r7, %r4, 1; mapa.shared::cluster.u32 %r8, %r2, %r7; mapa.shared::cluster.u32 %r9, %r3, %r7;
  @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r1], 128, [%r9];
)" + wait + R"(
  mad.lo.u32 %r10, %r0, 4, %r2; ld.shared.u32 %r11, [%r10]; mad.lo.u32 %r12, %r4, 32, %r0; mad.wide.u32 %x2, %r12, 4, %x1; st.global.u32 [%x2], %r11;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ret;
})";
  };
  const std::string wait =
      "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra WAIT;";
  at_all_moments([&](const Options& o) {
    for (const bool waits : {true, false}) {
      Gpu gpu(o);
      const std::uint64_t words[] = {gpu.allocate(256)};
      auto report =
          gpu.launch(hopper_module(text(waits ? wait : ""), waits), "k", {.grid = {2}, .block = {32}}, words);
      INFO(report.text());
      CHECK(report.ok() == waits);
      const auto found = from_gpu<std::uint32_t>(gpu, words[0], 64);
      if (waits)
        for (std::uint32_t n = 0; n < 64; ++n)
          CHECK(found[n] == (n / 32 ^ 1) * 1000 + n % 32);
    }
  });
}
