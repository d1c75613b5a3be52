// Tests whole kernels for sm_90a: a warp-specialised matmul with a ring of stages, right and with mistakes.
#include "hopper.h"
#include "jit/emulator/instructions/one_instruction.h"
#include "test_seed.h"

#include <kiln/jit/base/sanitized.h>
#include <kiln/jit/emulator/core/number.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

std::string list(const char* prefix, int first, int count) {
  std::string s = "{";
  for (int k = 0; k < count; ++k)
    s += (k ? ", " : "") + std::string(prefix) + std::to_string(first + k);
  return s + "}";
}

// C (m x n, f32) = A (m x k) B (n x k) transposed, bf16, in tiles of 128 x 128 x 64 with a swizzle of 128
// bytes. Warpgroup 0 loads into a ring of 3 stages; 1 and 2 multiply 64 rows each.
std::string matmul() {
  std::ostringstream s;
  s << R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry matmul(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128], .param .u64 c, .param .u32 m, .param .u32 n,
  .param .u32 k) .maxntid 384 .minnctapersm 1
{
  .reg .b32 %r<64>; .reg .b64 %x<32>; .reg .pred %p<16>; .reg .f32 %d<64>;
  .shared .align 8 .b8 bars[48];
  mov.b64 %x0, map_a; cvta.param.u64 %x0, %x0; mov.b64 %x1, map_b; cvta.param.u64 %x1, %x1;
  ld.param.u64 %x2, [c]; ld.param.u32 %r1, [m]; ld.param.u32 %r2, [n]; ld.param.u32 %r3, [k];
  mov.u32 %r0, %tid.x; mov.u32 %r4, smem; mov.u32 %r5, bars;
  mov.u32 %r6, %ctaid.x; shl.b32 %r6, %r6, 7; mov.u32 %r7, %ctaid.y; shl.b32 %r7, %r7, 7;
  add.u32 %r8, %r3, 63; shr.u32 %r8, %r8, 6;            // steps
  setp.eq.u32 %p0, %r0, 0; @!%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r5], 1; mbarrier.init.shared::cta.b64 [%r5+8], 1; mbarrier.init.shared::cta.b64 [%r5+16], 1;
  mbarrier.init.shared::cta.b64 [%r5+24], 2; mbarrier.init.shared::cta.b64 [%r5+32], 2; mbarrier.init.shared::cta.b64 [%r5+40], 2;
  fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
READY:
  bar.sync 0;
  mov.u32 %r9, 0; mov.u32 %r10, 0; mov.u32 %r11, 0;     // step, stage, phase
  shr.u32 %r12, %r0, 7; setp.ne.u32 %p1, %r12, 0; @%p1 bra CONSUMER;
  setmaxnreg.dec.sync.aligned.u32 40;
  setp.ge.u32 %p2, %r0, 32; @%p2 bra DONE;
PRODUCER:
  setp.ge.u32 %p3, %r9, %r8; @%p3 bra DONE;
  elect.sync _|%p4, 0xffffffff;
  mad.lo.u32 %r13, %r10, 8, %r5; xor.b32 %r14, %r11, 1;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r13+24], %r14; @!%p5 bra EMPTY;
  shl.b32 %r15, %r10, 14; add.u32 %r16, %r4, %r15; shl.b32 %r17, %r9, 6;
  @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 32768;
  @%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%x0, {%r17, %r6}], [%r13];
  add.u32 %r18, %r16, 49152;
  @%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r18], [%x1, {%r17, %r7}], [%r13];
  add.u32 %r9, %r9, 1; add.u32 %r10, %r10, 1; setp.eq.u32 %p6, %r10, 3; selp.u32 %r10, 0, %r10, %p6; selp.u32 %r19, 1, 0, %p6; xor.b32 %r11, %r11, %r19;
  bra PRODUCER;
CONSUMER:
  setmaxnreg.inc.sync.aligned.u32 232;
  sub.u32 %r20, %r12, 1; shl.b32 %r21, %r20, 13;        // this warpgroup's 64 rows of A
  mov.u64 %x5, 0x4000004000010000;
  and.b32 %r30, %r0, 127; setp.eq.u32 %p7, %r30, 0;
STEP:
  mad.lo.u32 %r13, %r10, 8, %r5;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p8, [%r13], %r11; @!%p8 bra FULL;
  shl.b32 %r15, %r10, 14; add.u32 %r16, %r4, %r15; add.u32 %r18, %r16, 49152; add.u32 %r16, %r16, %r21;
  shr.u32 %r16, %r16, 4; cvt.u64.u32 %x6, %r16; or.b64 %x6, %x6, %x5; shr.u32 %r18, %r18, 4; cvt.u64.u32 %x7, %r18; or.b64 %x7, %x7, %x5;
  setp.ne.u32 %p9, %r9, 0; setp.eq.u32 %p10, %r0, %r0;
  wgmma.fence.sync.aligned;
)";
  for (int step = 0; step < 4; ++step)
    s << "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " << list("%d", 0, 64) << ", %x6, %x7, "
      << (step ? "%p10" : "%p9") << ", 1, 1, 0, 0;\n  add.u64 %x6, %x6, 2; add.u64 %x7, %x7, 2;\n";
  s << R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  @%p7 mbarrier.arrive.shared::cta.b64 _, [%r13+24];
  add.u32 %r9, %r9, 1; add.u32 %r10, %r10, 1; setp.eq.u32 %p6, %r10, 3; selp.u32 %r10, 0, %r10, %p6; selp.u32 %r19, 1, 0, %p6; xor.b32 %r11, %r11, %r19;
  setp.lt.u32 %p3, %r9, %r8; @%p3 bra STEP;
  // row = m tile + 64 warpgroup + 16 warp + lane / 4, column = n tile + 2 (lane % 4)
  and.b32 %r31, %r0, 31; shr.u32 %r32, %r30, 5; shr.u32 %r33, %r31, 2; and.b32 %r34, %r31, 3;
  mad.lo.u32 %r35, %r20, 64, %r6; mad.lo.u32 %r35, %r32, 16, %r35; add.u32 %r35, %r35, %r33; mad.lo.u32 %r36, %r34, 2, %r7;
  mul.wide.u32 %x8, %r35, %r2; cvt.u64.u32 %x9, %r36; add.u64 %x8, %x8, %x9; shl.b64 %x8, %x8, 2; add.u64 %x8, %x2, %x8;
  mul.wide.u32 %x10, %r2, 32; add.u64 %x10, %x8, %x10; add.u32 %r37, %r35, 8;
  setp.lt.u32 %p11, %r35, %r1; setp.lt.u32 %p12, %r37, %r1;
)";
  for (int v = 0; v < 64; ++v) {
    if (v % 4 == 0) s << "  add.u32 %r38, %r36, " << v / 4 * 8 << ";\n";
    s << "  add.u32 %r39, %r38, " << v % 2 << "; setp.lt.u32 %p13, %r39, %r2; and.pred %p13, %p13, "
      << (v / 2 % 2 ? "%p12" : "%p11") << "; @%p13 st.global.f32 [" << (v / 2 % 2 ? "%x10" : "%x8") << "+"
      << (v / 4 * 8 + v % 2) * 4 << "], %d" << v << ";\n";
  }
  s << "DONE:\n  ret;\n}\n";
  return s.str();
}

struct Problem {
  std::uint32_t m, n, k;
};

TensorMapFields map_of(std::uint64_t address, std::uint32_t rows, std::uint32_t columns,
                       std::uint64_t pitch) {
  TensorMapFields f;
  f.type = TensorMapType::BFloat16;
  f.rank = 2;
  f.address = address;
  f.sizes = {columns, rows};
  f.strides = {pitch * 2};
  f.box = {64, 128};
  f.swizzle = TensorMapSwizzle::Bytes128;
  return f;
}

Report multiply(const std::string& text, const Problem& p, const Options& options, std::mt19937_64& random,
                bool compare, bool assembles = false) {
  const std::uint64_t pitch = (p.k + 7) / 8 * 8;
  auto small = [&] { return static_cast<int>(random() % 7) - 3; };
  std::vector<std::uint16_t> a(p.m * pitch), b(p.n * pitch);
  for (auto* x : {&a, &b})
    for (auto& v : *x)
      v = to_bf16(static_cast<float>(small()));
  Gpu gpu(options);
  const std::uint64_t at_a = on_gpu(gpu, a, "a"), at_b = on_gpu(gpu, b, "b"),
                      c = gpu.allocate(std::uint64_t(p.m) * p.n * 4, "c");
  auto module = hopper_module(text, assembles);
  Parameters q;
  q.add(encode(map_of(at_a, p.m, p.k, pitch)))
      .add(encode(map_of(at_b, p.n, p.k, pitch)))
      .add(c)
      .add(p.m)
      .add(p.n)
      .add(p.k);
  auto report = gpu.launch_packed(
      module, "matmul",
      {.grid = {(p.m + 127) / 128, (p.n + 127) / 128}, .block = {384}, .shared_bytes = 6 * 16384}, q.bytes());
  if (!compare) return report;
  INFO(report.text());
  REQUIRE(report.ok());
  const auto found = from_gpu<float>(gpu, c, std::size_t(p.m) * p.n);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < p.m; ++r)
    for (std::size_t x = 0; x < p.n; ++x) {
      float sum = 0;
      for (std::size_t k = 0; k < p.k; ++k)
        sum += from_bf16(a[r * pitch + k]) * from_bf16(b[x * pitch + k]);
      wrong += found[r * p.n + x] != sum;
    }
  CHECK(wrong == 0);
  return report;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("a warp-specialised matmul with a ring of stages is right at all moments", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  bool first = true;
  at_all_moments(
      [&](const Options& o) {
        for (const Problem& p : {Problem{128, 128, 448}, Problem{200, 136, 264}, Problem{64, 24, 64}}) {
          INFO(p.m << " x " << p.n << " x " << p.k);
          multiply(matmul(), p, o, random, true, first);
          first = false;
        }
      },
      4);
}

TEST_CASE("mistakes in a ring of stages are found", "[emulator]") {
  struct Mistake {
    const char *from, *to;
  };
  const Mistake mistakes[] = {
      {"xor.b32 %r14, %r11, 1;", "mov.u32 %r14, %r11;"}, // waits for the wrong phase
      {"[%r13], 32768;", "[%r13], 32784;"},              // too many bytes
      {"[%r13], 32768;", "[%r13], 32752;"},              // too few
      {"mbarrier.try_wait.parity.shared::cta.b64 %p8, [%r13], %r11; @!%p8 bra FULL;",
       ""}, // does not wait for the data
      {"mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r13+24], %r14; @!%p5 bra EMPTY;",
       ""}, // does not wait for a free stage
      {"  wgmma.wait_group.sync.aligned 0;\n", ""},
      {"  wgmma.fence.sync.aligned;\n", ""},
      {"setmaxnreg.inc.sync.aligned.u32 232",
       "setmaxnreg.inc.sync.aligned.u32 240"}, // more registers than there are
      {"setmaxnreg.dec.sync.aligned.u32 40;", ""},
      {"0x4000004000010000", "0x4000044000010000"}, // a reserved bit
      {"[%r5+24], 2;", "[%r5+24], 3;"},             // one arrival too many is expected
  };
  // With a sanitizer this takes ten minutes, so it tests every fourth mistake there, others in each run.
  const std::size_t step = sanitized ? 4 : 1;
  const std::uint64_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (std::size_t i = seed % step; i < std::size(mistakes); i += step)
    at_all_moments(
        [&](Options o) {
          const Mistake& x = mistakes[i];
          o.instruction_budget = 100'000;
          const auto report = multiply(with(matmul(), x.from, x.to), {128, 128, 320}, o, random, false);
          INFO(x.from << " -> " << x.to << "\n" << report.text());
          CHECK_FALSE(report.ok());
        },
        2);
}

TEST_CASE("setmaxnreg gives and takes registers of the block", "[emulator]") {
  auto kernel = [](const std::string& first, const std::string& second, const std::string& before = "") {
    return R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k() .maxntid 256 .maxnreg 128
{
  .reg .b32 %r<8>; .reg .pred %p<4>;
  mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra FIRST;
  )" + second +
           "\n  bra DONE;\nFIRST:\n  " + before + first + "\nDONE:\n  ret;\n}\n";
  };
  auto check = [&](const std::string& text, Fault fault, const std::string& what, bool assembles = true) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(seed);
      Gpu gpu({.arch = "sm_90a", .seed = seed});
      auto report = gpu.launch(hopper_module(text, assembles && seed == 0), "k", {.block = {256}}, {});
      INFO(report.text());
      if (what.empty()) {
        CHECK(report.ok());
        continue;
      }
      CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
        return f.fault == fault && f.message.find(what) != std::string::npos;
      }));
    }
  };
  const std::string less = "setmaxnreg.dec.sync.aligned.u32 56;",
                    more = "setmaxnreg.inc.sync.aligned.u32 200;";
  check(kernel(less, more), {}, "");
  check(kernel("setmaxnreg.dec.sync.aligned.u32 64;", more), Fault::Deadlock,
        "requests 200 registers per thread, has 128");
  check(kernel("setmaxnreg.inc.sync.aligned.u32 96;", less), Fault::IllegalOperand,
        "requests 96 registers, where the threads have 128");
  check(kernel("setmaxnreg.dec.sync.aligned.u32 160;", less), Fault::IllegalOperand, "keeps 160 registers",
        false);
  check(kernel(less, less, "setp.lt.u32 %p1, %r0, 32; @%p1 bra DONE; "), Fault::BarrierDivergence,
        "by 3 of the 4 warps of a warpgroup");
}

TEST_CASE("a 128x128x64 tile program with wgmma takes milliseconds", "[.][bench]") {
  Options o;
  o.arch = "sm_90a";
  const Problem p{128, 128, 64};
  const std::string text = matmul();
  Gpu gpu(o);
  std::vector<std::uint16_t> a(128 * 64), b(128 * 64);
  const std::uint64_t at_a = on_gpu(gpu, a), at_b = on_gpu(gpu, b), c = gpu.allocate(128 * 128 * 4);
  auto module = hopper_module(text, false);
  Parameters q;
  q.add(encode(map_of(at_a, p.m, p.k, 64)))
      .add(encode(map_of(at_b, p.n, p.k, 64)))
      .add(c)
      .add(p.m)
      .add(p.n)
      .add(p.k);
  double best = 1e9;
  for (int n = 0; n < 20; ++n) {
    const auto start = std::chrono::steady_clock::now();
    auto report = gpu.launch_packed(module, "matmul", {.block = {384}, .shared_bytes = 6 * 16384}, q.bytes());
    REQUIRE(report.ok());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  WARN("one tile program: " << best * 1e3 << " ms");
  CHECK(best < 5e-3);
}
