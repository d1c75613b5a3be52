// Tests that malformed PTX is refused with its line, and never causes a crash or a hang.
#include "jit/emulator/small_kernel.h"
#include "test_seed.h"

#include <cstdlib>
#include <kiln/dsl/error.h>
#include <random>

using namespace kiln;

namespace {

std::string refusal(const std::string& text, const std::string& kernel = "k") {
  try {
    emulator::Gpu gpu({.arch = "sm_90a", .instruction_budget = 100000});
    auto module = emulator::Module::parse(text, "bad.ptx");
    std::uint64_t words[] = {0, 0};
    gpu.launch(module, kernel, {.block = {32}}, words);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}
std::string refused_body(const std::string& body) { return refusal(test::small_module(body)); }

} // namespace

TEST_CASE("what the emulator does not know is refused by name and line", "[emulator]") {
  CHECK(refused_body("frobnicate.b32 %r1, %r2;") ==
        "bad.ptx:9: the instruction 'frobnicate' is not known to the emulator");
  CHECK(refused_body("add.wild.s32 %r1, %r2, 1;") ==
        "bad.ptx:9: the modifier .wild of 'add.wild.s32' is not known to the emulator");
  CHECK(refused_body("add.s64 %x1, %r2, 1;") ==
        "bad.ptx:9: the register %r2 has 32 bits, and 'add.s64' takes 64");
  CHECK(refused_body("add.s32 %r1, %r2;") == "bad.ptx:9: 'add.s32' has 2 operands, and takes 3");
  CHECK(refused_body("add.s32 %r1, %r2, %nothing;") == "bad.ptx:9: the name '%nothing' is not declared");
  CHECK(refused_body("add.s32 %r1, %r2, %r99;") == "bad.ptx:9: the name '%r99' is not declared");
  CHECK(refused_body("bra NOWHERE;") == "bad.ptx:9: there is no label 'NOWHERE' in k");
  CHECK(refused_body("@%r1 bra L; L:") == "bad.ptx:9: the guard '%r1' is no predicate");
  CHECK(refused_body("call missing, (%r1);") == "bad.ptx:9: the function 'missing' is not declared");
  CHECK(
      refusal(test::small_module("{ .param .b16 p; .param .b32 q; call.uni (p), f, (q); }",
                                 ".func (.param .b32 r) f(.param .b32 a) { st.param.b32 [r], 1; ret; }\n")) ==
      "bad.ptx:10: 'p' has 2 bytes, and 'r' of f has 4");
  CHECK(refused_body("mov.u32 %r1, {%r2;") == "bad.ptx:9: expected '}' and found ';'");
  CHECK(refused_body("mov.u32 %r1, \"text\";") == "bad.ptx:9: expected an operand and found 'text'");
  CHECK(refused_body("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3}, {%r1, %r2, %r3, "
                     "%r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};") ==
        "bad.ptx:9: 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32' has a vector of 3 where it takes one "
        "of 4");
  CHECK(refusal(".version 8.0\n.target sm_80\n.frob x;") == "bad.ptx:3: the directive '.frob' is not known");
  CHECK(refusal(".version 8.0\n.target sm_80\n.address_size 32\n") ==
        "bad.ptx:3: addresses of 32 bits are not supported; compile for 64");
  CHECK(refusal(".version 8.0\n.target sm_80\n\"") == "bad.ptx:3: this string does not end");
  CHECK(refusal("") ==
        "bad.ptx:1: there is no .version: a PTX module starts with .version, .target and .address_size");
  CHECK(refusal(test::small_module(""), "other") == "bad.ptx: there is no kernel other; it has k");
  CHECK(refusal(".version 8.0\n.target sm_100a\n.visible .entry k() { ret; }") ==
        "bad.ptx: it is for sm_100a and does not run on sm_90a");
}

TEST_CASE("wrong launches are refused", "[emulator]") {
  emulator::Gpu gpu({.arch = "sm_80"});
  auto module = emulator::Module::parse(
      ".version 8.0\n.target sm_80\n.visible .entry k(.param .u32 n) .reqntid 64 { ret; }", "k.ptx");
  auto refused = [&](const emulator::Launch& launch, std::vector<std::uint64_t> words) -> std::string {
    try {
      gpu.launch(module, "k", launch, words);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refused({.block = {64}}, {}) == "k.ptx: launch of k: 0 arguments, where the kernel takes 1");
  CHECK(refused({.block = {32}}, {1}) ==
        "k.ptx: launch of k: a block of 32 x 1 x 1 threads, where the kernel requires 64 x 1 x 1 (.reqntid)");
  CHECK(refused({.block = {2048}}, {1}) == "k.ptx: launch of k: a block of 2048 x 1 x 1 threads; it has 1 to "
                                           "1024 in all, and at most 1024 x 1024 x 64");
  CHECK(refused({.grid = {0}, .block = {64}}, {1}) ==
        "k.ptx: launch of k: a grid of 0 x 1 x 1 blocks; it has at least one, and at most 2147483647 x 65535 "
        "x 65535");
  CHECK(refused({.block = {64}, .shared_bytes = 1 << 20}, {1}) ==
        "k.ptx: launch of k: 0 bytes of static and 1048576 of dynamic shared memory; sm_80 has 166912 for a "
        "block");
  CHECK(refused({.block = {64}}, {1}).empty());
}

TEST_CASE("mutated PTX is run, reported on or refused", "[emulator]") {
  std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  int count = 400;
  if (const char* text = std::getenv("KILN_TEST_COUNT")) count = 100 * std::atoi(text);
  std::mt19937_64 random(seed);
  const std::string good = test::small_module(
      R"(
    .shared .align 16 .b8 s[512]; .local .align 8 .b8 l[32];
    mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0; bar.sync 0;
    ld.shared.v2.u32 {%r3, %r4}, [%r1+8]; setp.lt.and.u32 %p1|%p2, %r3, 7, !%p3; @!%p1 bra L1;
    cvt.rn.f32.s32 %f1, %r3; fma.rn.ftz.f32 %f2, %f1, 0f3F800000, %f1; ex2.approx.f32 %f3, %f2;
    { .reg .b32 %t<3>; .param .b32 p0; st.param.b32 [p0+0], %r3; .param .b32 p1; call.uni (p1), twice, (p0); ld.param.b32 %t1, [p1]; add.s32 %r5, %t1, -3; }
    L1: shfl.sync.bfly.b32 %r6|%p4, %r5, 1, 31, -1; vote.sync.ballot.b32 %r7, %p4, -1; atom.global.add.u32 %r8, [%out], 1;
    mov.b64 %x2, {%r6, %r7}; mov.u64 %x3, l; st.local.v4.b16 [%x3], {%s1, %s2, %s3, %s4}; prmt.b32 %r9, %r6, %r7, 0x5410; lop3.b32 %r10, %r6, %r7, %r8, 0xE8;
    cp.async.ca.shared.global [%r1], [%out], 4; cp.async.wait_all; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r11, %r12}, [%r1];
    LOOP: add.u32 %r13, %r13, 1; setp.lt.u32 %p5, %r13, 10; @%p5 bra LOOP; st.global.u32 [%x0], %r13;)",
      ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; shl.b32 %r1, "
      "%r1, 1; st.param.b32 [r], %r1; ret; }\n"
      ".global .align 4 .u32 g[4] = {1, 2, 3}; .const .b8 c[3] = {1, 2, 3}; .file 1 \"a.cu\"\n");
  CHECK(refusal(good).empty());
  const std::string pieces[] = {"{",
                                "}",
                                "(",
                                ")",
                                "[",
                                "]",
                                ";",
                                ",",
                                ".",
                                "%r1",
                                "%x2",
                                "%p1",
                                "0x7fffffffffffffff",
                                "-1",
                                "0",
                                "ret;",
                                "bra L1;",
                                "@%p1 ",
                                ".b64",
                                ".pred",
                                "::",
                                "|",
                                "!",
                                "\"",
                                "/*",
                                "add",
                                ".v4",
                                "<",
                                ">",
                                "1e99",
                                "0f12",
                                "%tid.x",
                                "call",
                                "99999999999",
                                "bar.sync 1;",
                                "\n",
                                "L1:",
                                ".reg .b32 %q<4000000>;",
                                "(((((((((("};
  int refusals = 0;
  for (int n = 0; n < count; ++n) {
    std::string text = good;
    for (std::uint64_t k = 1 + random() % 3; k > 0; --k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
      case 0: text.erase(at, 1 + random() % 8); break;
      case 1: text.insert(at, pieces[random() % std::size(pieces)]); break;
      case 2: text[at] = static_cast<char>(random() % 256); break;
      default: { // copies a piece of it elsewhere
        const std::string part = text.substr(random() % text.size(), random() % 30);
        text.insert(at, part);
      }
      }
    }
    CAPTURE(n);
    INFO(text);
    refusals += !refusal(text).empty();
  }
  CHECK(refusals > count / 4);
  CHECK(!refusal(std::string(1 << 20, '(')).empty());
  CHECK(!refused_body("mov.u32 %r1, " + std::string(100000, '(') + ";").empty());
  CHECK(!refused_body("mov.u32 %r1, " + std::string(100000, '-') + "1;").empty());
  CHECK(!refused_body("mov.u32 %r1, " + std::string(100000, '!') + "%p1;").empty());
  CHECK(!refused_body(std::string(100000, '{')).empty());
  CHECK(!refused_body("mov.u32 %r1, " + std::string(100000, '{') + ";").empty());
}
