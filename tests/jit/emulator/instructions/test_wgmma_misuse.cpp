// Tests that misuse of registers and shared memory of a wgmma is reported, and missing forms are refused.
#include "jit/emulator/hopper.h"

#include <kiln/dsl/error.h>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

// A kernel around `body`, with the descriptors %x4 and %x5 of valid matrices, accumulators %d0-3 and A in
// %a0-3.
std::string small(const std::string& body) {
  return R"(
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 out) .maxntid 128
{
  .reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>; .reg .f32 %d<8>; .reg .b32 %a<8>; .reg .f32 %f<8>;
  ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mov.u32 %r3, smem; setp.eq.u32 %p0, %r0, %r0; setp.lt.u32 %p3, %r0, 32;
  mad.lo.u32 %r4, %r0, 32, %r3; mov.u32 %r5, 0x3f803f80;
  st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};
  fence.proxy.async.shared::cta; bar.sync 0;
  shr.u32 %r10, %r3, 4; cvt.u64.u32 %x4, %r10; mov.u64 %x6, 0x0000001000080000; or.b64 %x4, %x4, %x6; mov.u64 %x5, %x4;
  mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
  mov.f32 %d4, %d0; mov.f32 %d5, %d0; mov.f32 %d6, %d0; mov.f32 %d7, %d0;
  mov.b32 %a0, %r5; mov.b32 %a1, %r5; mov.b32 %a2, %r5; mov.b32 %a3, %r5;
)" + body +
         R"(
  mad.wide.u32 %x8, %r0, 4, %x1; st.global.f32 [%x8], %d0;
  ret;
})";
}
const std::string
    fence = "wgmma.fence.sync.aligned;\n",
    commit = "wgmma.commit_group.sync.aligned;\n", wait = "wgmma.wait_group.sync.aligned 0;\n",
    multiply = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %x4, %x5, %p0, 1, "
               "1, 0, 0;\n",
    from_registers =
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, "
        "%a3}, %x5, %p0, 1, 1, 0;\n";

Report run(const std::string& body, const Options& options, std::vector<float>* out = nullptr,
           bool assembles = true) {
  auto module = hopper_module(small(body), assembles);
  Gpu gpu(options);
  const std::uint64_t at = gpu.allocate(512);
  const std::uint64_t words[] = {at};
  auto report = gpu.launch(module, "k", {.block = {128}, .shared_bytes = 4096}, words);
  if (out) *out = from_gpu<float>(gpu, at, 128);
  return report;
}

} // namespace

TEST_CASE("wgmma in flight keeps its registers and its shared memory", "[emulator]") {
  SECTION("correct use is no finding") {
    at_all_moments([&](const Options& o) {
      for (const std::string& body :
           {fence + multiply + multiply + commit + wait,
            fence + multiply + commit + multiply + commit + "wgmma.wait_group.sync.aligned 1;\n" + wait,
            fence + from_registers + multiply + commit + wait,
            fence + multiply + commit + wait + "add.f32 %d0, %d0, 0f00000000;\n" + fence + multiply + commit +
                wait}) {
        std::vector<float> out;
        auto report = run(body, o, &out);
        INFO(report.text() << body);
        CHECK(report.ok());
        CHECK(out[5] == 32);
        CHECK(out[77] == 32);
      }
    });
  }
  SECTION("misuse is reported at all moments") {
    struct Wrong {
      std::string body, text;
      Fault fault = Fault::InFlight;
    };
    const Wrong all[] = {
        {multiply + commit + wait, "no wgmma.fence comes before"},
        {fence + multiply + commit + "add.f32 %f1, %d1, %d1;\n" + wait,
         "reads %d1, which a wgmma under way adds to"},
        {fence + multiply + commit + "mov.f32 %d2, 0f3f800000;\n" + wait,
         "writes %d2, which a wgmma under way adds to"},
        {fence + multiply + wait + "mov.f32 %f2, %d3;\n" + commit + wait, "reads %d3"},
        {fence + from_registers + commit + "mov.b32 %a1, 7;\n" + wait,
         "writes %a1, which a wgmma under way reads A from"},
        {fence + multiply + commit + wait + "mov.f32 %d1, 0f3f800000;\n" + multiply + commit + wait,
         "without a wgmma.fence between"},
        {fence + multiply + commit + wait + "mov.b32 %a1, 7;\n" + from_registers + commit + wait,
         "reads A from registers"},
        {fence + multiply + commit + "wgmma.wait_group.sync.aligned 1;\n", "reads %d0"},
        {fence + "or.b64 %x4, %x4, 0x10000000000000;\n" + multiply + commit + wait, "reserved bits are set",
         Fault::IllegalOperand},
        {fence + "or.b64 %x4, %x4, 0x2000000000000;\n" + multiply + commit + wait,
         "a base offset and no swizzle", Fault::IllegalOperand},
        {fence + "or.b64 %x4, %x4, 0x3ff0;\n" + multiply + commit + wait, "and the block has 4096 bytes",
         Fault::OutOfBounds},
        {fence + "selp.u64 %x7, 8, 0, %p3; add.u64 %x5, %x4, %x7;\n" + multiply + commit + wait,
         "differ between the warps", Fault::IllegalOperand},
        {fence + "cvt.u64.u32 %x7, %r0; and.b64 %x7, %x7, 1; add.u64 %x5, %x5, %x7;\n" + multiply + commit +
             wait,
         "differ between the threads", Fault::IllegalOperand},
        {"@!%p3 bra SKIP;\n" + fence + multiply + commit + wait + "SKIP:\n",
         "by 1 of the 4 warps of a warpgroup", Fault::BarrierDivergence},
        {fence + multiply + commit, "is still under way", Fault::Unfinished},
    };
    at_all_moments(
        [&](const Options& o) {
          for (const Wrong& w : all) {
            auto report = run(w.fault == Fault::Unfinished ? w.body + "bra END; END:\n" : w.body, o);
            INFO(report.text() << w.body);
            if (w.fault == Fault::Unfinished) {
              CHECK(std::any_of(report.findings.begin(), report.findings.end(),
                                [](const Finding& f) { return f.fault == Fault::Unfinished; }));
              continue;
            }
            CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
              return f.fault == w.fault && f.message.find(w.text) != std::string::npos;
            }));
          }
        },
        1);
  }
  SECTION("a source that changes while the wgmma is under way gives another result when it is read late") {
    Options o;
    o.arch = "sm_90a";
    o.asynchrony = Asynchrony::Latest;
    auto report = run(fence + multiply + commit + "st.shared.u32 [%r4], %r0; bar.sync 0;\n" + wait, o);
    INFO(report.text());
    CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
      return f.fault == Fault::InFlight && f.message.find("shared memory that changed") != std::string::npos;
    }));
  }
}

TEST_CASE("forms of wgmma that do not exist are refused by name", "[emulator]") {
  auto refused = [](const std::string& body, const std::string& text) {
    Options o;
    o.arch = "sm_90a";
    try {
      run(fence + body, o, nullptr, false);
      FAIL("it was taken: " << body);
    } catch (const UserError& e) {
      INFO(e.what());
      CHECK(std::string(e.what()).find(text) != std::string::npos);
    }
  };
  refused("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %x4, %x5, %r0, 0, "
          "%p0, 1, 1, 0, 0;",
          "sparse");
  refused(
      "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %x4, %x5, %p0, 1, 1, 0, 0;",
      "not known");
  refused("wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {%a0, %a1}, %x4, %x5, %p0, 1, 1, 0, 0;",
          "not known");
  refused("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2}, %x4, %x5, %p0, 1, 1, 0, 0;",
          "a vector of 3");
  refused("wgmma.wait_group.sync.aligned 8;", "takes 0 to 7");
}
