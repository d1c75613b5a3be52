// Tests that copies of unwritten values are no findings, and that uses of them are reported.
#include "jit/emulator/small_kernel.h"
#include "test_seed.h"

#include <bit>
#include <cstdio>
#include <random>

using namespace kiln;
using emulator::Fault;
using emulator::Report;

namespace {

Report checked(const std::string& body, std::uint32_t threads = 32, const std::vector<std::uint32_t>& in = {},
               const std::string& before = "") {
  emulator::Options o;
  o.checks = emulator::Checks::all();
  return test::run_small(body, threads, o, before, in, threads * 4).report;
}

// A structure {float; char; 3 bytes of padding} for each thread in shared memory, at %r2.
const std::string padded = ".shared .align 16 .b8 s[1024]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 8, %r1;\n"
                           "st.shared.u32 [%r2], %r0; st.shared.u8 [%r2+4], %r0;\n";

// Checks that there is exactly one finding, an uninitialised read by the load.
void check_reported(const Report& r, const std::string& load, const std::string& how,
                    std::uint64_t times = 32) {
  INFO(r.text());
  REQUIRE(r.findings.size() == 1);
  CHECK(r.findings[0].fault == Fault::Uninitialised);
  CHECK(r.findings[0].times == times);
  CHECK_THAT(r.findings[0].message, Catch::Contains(load) && Catch::Contains(how));
}
void check_clean(const Report& r) {
  INFO(r.text());
  CHECK(r.ok());
}

} // namespace

TEST_CASE("unwritten: copies of padding are no findings", "[emulator]") {
  // Through vectors, packed registers, shared, local and global memory, and back.
  check_clean(checked(padded + R"(
    ld.shared.v2.u32 {%r3, %r4}, [%r2];
    mov.b64 %x1, {%r3, %r4};
    st.shared.b64 [%r2+512], %x1;
    ld.shared.b64 %x2, [%r2+512];
    mov.b64 %x3, %x2;
    .local .align 8 .b8 kept[8];
    st.local.b64 [kept], %x3;
    ld.local.b64 %x4, [kept];
    mad.wide.u32 %x5, %r0, 8, %out;
    st.global.b64 [%x5], %x4;
    ld.global.v2.u32 {%r5, %r6}, [%x5];
    st.global.u32 [%x5+4], %r6;
    add.u32 %r7, %r5, 1;
    st.global.u32 [%x5], %r7;)"));
}

TEST_CASE("unwritten: a finding names the load and the instruction that uses it", "[emulator]") {
  const std::string load = padded + "ld.shared.b32 %r3, [%r2+4];\n";
  for (const std::string use :
       {"add.u32 %r4, %r3, 1;", "mul.wide.u32 %x1, %r3, 4;", "cvt.rn.f32.u32 %f1, %r3;",
        "setp.eq.u32 %p1, %r3, 7;", "red.global.add.u32 [%x0], %r3;", "shl.b32 %r4, 1, %r3;",
        "dp4a.u32.u32 %r4, %r0, %r3, %r0;"}) {
    CAPTURE(use);
    const auto r = checked(load + use);
    check_reported(r, "ld.shared.b32 reads 4 bytes at 0x4, which nothing wrote from byte 1 on: shared memory",
                   use.substr(0, use.find(' ')) + " in line ");
  }
  check_reported(checked(load + "mov.b32 %r4, %r3; and.b32 %r5, %r4, 0x1fff; add.u32 %r6, %r2, %r5;"),
                 "ld.shared.b32 reads 4 bytes at 0x4", "add.u32 in line ");
  // A branch, an address, and a value that was copied through memory.
  check_reported(
      checked(load + "shr.u32 %r4, %r3, 8; setp.ne.u32 %p1, %r4, 0; @%p1 bra L; mov.u32 %r5, 1; L:"),
      "ld.shared.b32", "setp.ne.u32 in line ");
  check_reported(checked(".local .align 8 .b8 pair[8]; st.local.v2.u32 [pair], {1, 1};\n" + padded +
                         "ld.shared.b64 %x1, [%r2]; mov.b64 {%r5, %r4}, %x1; bfe.u32 %r6, %r4, 9, 1; "
                         "shl.b32 %r6, %r6, 2; ld.local.u32 %r8, [%r6]; st.global.u32 [%x0], %r8;"),
                 "ld.shared.b64 reads 8 bytes at 0x0, which nothing wrote from byte 5 on",
                 "ld.local.u32 in line ");
  check_reported(checked(load + ".local .align 8 .b8 kept[8]; st.local.b32 [kept+4], %r3; ld.local.b32 %r4, "
                                "[kept+4]; st.shared.b32 [%r2+512], %r4; ld.shared.b32 %r5, [%r2+512]; "
                                "neg.s32 %r6, %r5;"),
                 "ld.shared.b32 reads 4 bytes at 0x4, which nothing wrote", "neg.s32 in line ");
  // A written value in its place.
  check_clean(checked(load + "st.shared.u32 [%r2+4], %r0; ld.shared.b32 %r3, [%r2+4]; add.u32 %r4, %r3, 1;"));
  check_clean(checked(load + "mov.u32 %r3, 5; add.u32 %r4, %r3, 1;"));
  // Lanes that do not use it.
  check_reported(checked(load + "setp.lt.u32 %p1, %r0, 3; @%p1 add.u32 %r4, %r3, 1;"), "ld.shared.b32",
                 "add.u32", 3);
  check_clean(checked(load + "setp.lt.u32 %p1, %r0, 32; selp.b32 %r4, 1, %r3, %p1; add.u32 %r5, %r4, 1;"));
  check_reported(checked(load + "setp.lt.u32 %p1, %r0, 30; selp.b32 %r4, 1, %r3, %p1; add.u32 %r5, %r4, 1;"),
                 "ld.shared.b32", "add.u32", 2);
}

TEST_CASE("unwritten: whole values stored to global memory, and loads that are not read", "[emulator]") {
  const std::string words = ".shared .align 16 .b8 s[1024]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 16, %r1;\n";
  check_reported(checked(words + "ld.shared.u32 %r3, [%r2]; st.global.u32 [%x0], %r3;"),
                 "ld.shared.u32 reads 4 bytes", "st.global.u32 in line 10 stores it in global memory");
  check_reported(checked(words +
                         "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2]; mad.wide.u32 %x5, %r0, 16, %out; "
                         "st.global.v4.u32 [%x5], {%r3, %r4, %r5, %r6};"),
                 "ld.shared.v4.u32 reads 16 bytes", "stores it in global memory");
  check_reported(checked(words + "ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r2+512], %r3; ld.shared.u32 %r4, "
                                 "[%r2+512]; st.global.u32 [%x0], %r4;"),
                 "ld.shared.u32 reads 4 bytes at 0x0,", "stores it in global memory");
  check_reported(checked(words + "ld.shared.u32 %r3, [%r2];"), "ld.shared.u32 reads 4 bytes", "");
  // Another thread wrote the adjacent word, which is not loaded here.
  check_reported(
      checked(words + "st.shared.u32 [%r2+4], 1; ld.shared.u32 %r3, [%r2]; st.global.u32 [%x0], %r3;"),
      "ld.shared.u32 reads 4 bytes", "stores it in global memory");
  // Padding of a vector, of adjacent loads, of bytes.
  const std::string three = words + "st.shared.v2.u32 [%r2], {1, 2}; st.shared.u32 [%r2+8], 3;\n";
  check_clean(checked(three + "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2]; mad.wide.u32 %x5, %r0, 16, "
                              "%out; st.global.v4.u32 [%x5], {%r3, %r4, %r5, %r6};"));
  check_clean(checked(three + "add.u32 %r9, %r2, 8; ld.shared.u32 %r3, [%r9+4]; ld.shared.u32 %r4, [%r2+8]; "
                              "mad.wide.u32 %x5, %r0, 16, %out; st.global.u32 [%x5+12], %r3; "
                              "st.global.u32 [%x5+8], %r4;"));
  check_reported(checked(three +
                         "ld.shared.u32 %r4, [%r2+8]; bra L; L: ld.shared.u32 %r3, [%r2+12]; mad.wide.u32 "
                         "%x5, %r0, 16, %out; st.global.u32 [%x5+12], %r3; st.global.u32 [%x5+8], %r4;"),
                 "ld.shared.u32 reads 4 bytes at 0xc,", "stores it in global memory");
  check_clean(
      checked(words + "st.shared.u8 [%r2+4], 1; ld.shared.u8 %r3, [%r2+7]; st.global.u8 [%x0], %r3;"));
  check_reported(
      checked(words + "st.shared.u8 [%r2+8], 1; ld.shared.u8 %r3, [%r2+7]; st.global.u8 [%x0], %r3;"),
      "ld.shared.u8 reads 1 bytes at 0x7", "stores it in global memory");
}

TEST_CASE("unwritten: calls, shuffles and cp.async pass marks on", "[emulator]") {
  const std::string pass = R"(
.func (.param .align 4 .b8 result[8]) pass(.param .align 4 .b8 given[8])
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [given]; ld.param.b32 %r2, [given+4];
  st.param.b32 [result], %r1; st.param.b32 [result+4], %r2;
  ret;
}
)";
  const std::string call = padded + R"(
    ld.shared.v2.b32 {%r3, %r4}, [%r2];
    { .param .align 4 .b8 a[8]; .param .align 4 .b8 b[8];
      st.param.b32 [a], %r3; st.param.b32 [a+4], %r4;
      call (b), pass, (a);
      ld.param.b32 %r5, [b]; ld.param.b32 %r6, [b+4];
      st.param.b32 [a], %r5; st.param.b32 [a+4], %r5; // written again
      call (b), pass, (a);
      ld.param.b32 %r7, [b+4]; }
    and.b32 %r7, %r7, 255;
    add.u32 %r7, %r7, %r5;
)";
  check_clean(checked(call, 32, {}, pass));
  check_reported(checked(call + "add.u32 %r8, %r6, 1;", 32, {}, pass),
                 "ld.shared.v2.b32 reads 8 bytes at 0x0, which nothing wrote from byte 5 on",
                 "add.u32 in line");

  const std::string shuffle = padded +
                              "ld.shared.b32 %r3, [%r2+4]; setp.eq.u32 %p1, %r0, 5; @!%p1 mov.u32 %r3, "
                              "1; shfl.sync.idx.b32 %r4, %r3, 5, 31, -1; ";
  check_clean(checked(shuffle + "st.shared.b32 [%r2+4], %r4; and.b32 %r5, %r4, 255; add.u32 %r5, %r5, 1;"));
  check_reported(checked(shuffle + "add.u32 %r5, %r4, 1;"), "ld.shared.b32 reads 4 bytes at 0x2c",
                 "add.u32 in line");
  check_clean(checked(padded +
                      "ld.shared.b32 %r3, [%r2+4]; @!%p1 mov.u32 %r4, %r3; shfl.sync.idx.b32 %r4, %r0, "
                      "5, 31, -1; add.u32 %r5, %r4, 1; st.shared.b32 [%r2], %r3;"));

  const std::string copy =
      ".shared .align 16 .b8 s[1024]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 8, %r1;\n"
      "mad.wide.u32 %x1, %r0, 8, %x9; st.global.u32 [%x1], %r0; st.global.u8 [%x1+4], %r0;\n"
      "cp.async.ca.shared.global [%r2], [%x1], 8; cp.async.wait_all;\n"
      "ld.shared.v2.u32 {%r3, %r4}, [%r2]; and.b32 %r5, %r4, 255; add.u32 %r3, %r3, %r5;\n";
  emulator::Options o;
  o.checks = emulator::Checks::all();
  o.arch = "sm_90a";
  for (const bool uses : {false, true}) {
    emulator::Gpu gpu(o);
    const std::string body = "mov.b64 %x9, %out;\n" + copy + (uses ? "add.u32 %r4, %r4, 1;" : "");
    auto module = emulator::Module::parse(test::small_module(body), "small.ptx");
    std::uint64_t words[] = {gpu.allocate(256, "out"), 0};
    const Report r = gpu.launch(module, "k", {.block = {32}}, words);
    if (uses)
      check_reported(r, "cp.async.ca.shared.global reads 8 bytes", "add.u32 in line");
    else
      check_clean(r);
  }
}

TEST_CASE("unwritten: each bit is followed by itself", "[emulator]") {
  // %r10 has unwritten bytes, %r11 is written. Each lane uses one bit of %r12, and is reported exactly if
  // that bit depends on the unwritten bytes.
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto number = [&](std::uint32_t below) { return std::to_string(random() % below); };
  const auto word = [&] {
    return "0x" + [&] {
      char text[16];
      std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random()));
      return std::string(text);
    }();
  };
  int reported = 0;
  for (int round = 0; round < 12; ++round) {
    const std::uint32_t bytes = static_cast<std::uint32_t>(random() % 14) + 1; // mask of the written bytes
    const std::vector<std::string> operations = {
        "and.b32 %r12, %r10, %r11;",
        "or.b32 %r12, %r11, %r10;",
        "xor.b32 %r12, %r10, " + word() + ";",
        "not.b32 %r12, %r10;",
        "shl.b32 %r12, %r10, " + number(36) + ";",
        "shr.u32 %r12, %r10, " + number(36) + ";",
        "shr.s32 %r12, %r10, " + number(36) + ";",
        "bfe.u32 %r12, %r10, " + number(40) + ", " + number(40) + ";",
        "bfe.s32 %r12, %r10, " + number(40) + ", " + number(40) + ";",
        "bfi.b32 %r12, %r10, %r11, " + number(40) + ", " + number(40) + ";",
        "bfi.b32 %r12, %r11, %r10, " + number(40) + ", " + number(40) + ";",
        "prmt.b32 %r12, %r10, %r11, " + number(65536) + ";",
        "prmt.b32 %r12, %r11, %r10, " + number(65536) + ";",
        "shf.l.wrap.b32 %r12, %r10, %r11, " + number(40) + ";",
        "shf.r.clamp.b32 %r12, %r11, %r10, " + number(40) + ";",
        "lop3.b32 %r12, %r10, %r11, " + word() + ", " + number(256) + ";",
        "lop3.b32 %r12, %r11, " + word() + ", %r10, " + number(256) + ";",
        "cvt.u16.u32 %s1, %r10; cvt.s32.s8 %r12, %s1;",
        "cvt.s8.s32 %s1, %r10; mov.b32 %r12, {%s1, %s1};",
        "cvt.s64.s32 %x1, %r10; shr.s64 %x1, %x1, " + number(64) + "; cvt.u32.u64 %r12, %x1;",
        "mov.b32 {%s1, %s2}, %r10; mov.b32 %r12, {%s2, %s1};",
        "mov.b64 %x1, {%r11, %r10}; shr.u64 %x1, %x1, " + number(64) + "; mov.b64 {%r12, %r13}, %x1;",
        "shl.b32 %r12, %r10, 8; shr.s32 %r12, %r12, 16; xor.b32 %r12, %r12, %r11;",
    };
    for (const std::string& operation : operations) {
      CAPTURE(operation, bytes);
      const std::vector<std::uint32_t> in = {static_cast<std::uint32_t>(random()),
                                             static_cast<std::uint32_t>(random())};
      const auto body = [&](const std::string& fill) {
        std::string text = ".shared .align 4 .b8 s[4]; ld.param.u64 %x9, [in]; ld.global.u32 %r11, [%x9];\n"
                           "ld.global.u32 %r3, [%x9+4]; setp.eq.u32 %p1, %r0, 0;\n" +
                           fill;
        for (int b = 0; b < 4; ++b)
          if (bytes >> b & 1)
            text += "shr.u32 %r4, %r3, " + std::to_string(8 * b) + "; @%p1 st.shared.u8 [s+" +
                    std::to_string(b) + "], %r4;\n";
        return text + "bar.warp.sync -1; ld.shared.b32 %r10, [s];\n" + operation +
               "\nmov.u32 %r20, 1; shl.b32 %r20, %r20, %r0; and.b32 %r21, %r12, %r20; add.u32 %r21, %r21, "
               "0;\n"
               "st.global.u32 [%x0], %r21;";
      };
      std::uint32_t differs = 0;
      std::vector<std::uint32_t> before;
      for (const char* fill : {"0", "0xffffffff"}) {
        const auto r =
            test::run_small(body(std::string("@%p1 st.shared.u32 [s], ") + fill + ";\n"), 32, {}, "", in);
        REQUIRE(r.report.ok());
        if (!before.empty())
          for (std::uint32_t l = 0; l < 32; ++l)
            differs |= before[l] != r.out[l] ? 1u << l : 0;
        before = r.out;
      }
      const Report r = checked(body(""), 32, in);
      INFO(r.text());
      CHECK(r.findings.size() == (differs ? 1u : 0u));
      if (differs && !r.findings.empty()) {
        CHECK(r.findings[0].times == static_cast<std::uint64_t>(std::popcount(differs)));
        CHECK(r.findings[0].thread[0] == static_cast<std::uint32_t>(std::countr_zero(differs)));
        ++reported;
      }
    }
  }
  CHECK(reported > 50);
}
