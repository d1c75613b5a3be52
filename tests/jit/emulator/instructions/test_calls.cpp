// Tests calls through registers, and local memory of functions.
#include "jit/emulator/hopper.h"
#include "jit/emulator/small_kernel.h"

#include <kiln/dsl/error.h>

using namespace kiln;
using namespace kiln::test;
using emulator::Fault;

namespace {

const std::string functions = R"(
.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %v; ld.param.b32 %v, [a]; add.u32 %v, %v, %v; st.param.b32 [r], %v; ret; }
.func (.param .b32 r) square(.param .b32 a) { .reg .b32 %v; ld.param.b32 %v, [a]; mul.lo.u32 %v, %v, %v; st.param.b32 [r], %v; ret; }
.func (.param .b32 r) next(.param .b32 a) { .reg .b32 %v; ld.param.b32 %v, [a]; add.u32 %v, %v, 1; st.param.b32 [r], %v; ret; }
.func (.param .b64 r) wide(.param .b32 a) { .reg .b64 %v; mov.u64 %v, 9; st.param.b64 [r], %v; ret; }
.global .align 8 .u64 table[3] = {twice, square, next};
)";

// Each thread calls the function whose address is in %x1 with its index, and stores the result.
std::string calls(const std::string& choose,
                  const std::string& prototype = ".callprototype (.param .b32 _) _ (.param .b32 _)") {
  return choose + R"(
{ .param .b32 arg; .param .b32 got;
  st.param.b32 [arg], %r0;
  shape: )" +
         prototype + R"(;
  call (got), %x1, (arg), shape;
  ld.param.b32 %r9, [got];
}
st.global.b32 [%x0], %r9;)";
}

} // namespace

TEST_CASE("lanes call different functions through a register", "[emulator]") {
  // through a table in global memory, by addresses, and with a list of the functions that may be called
  const std::string by_table =
      "rem.u32 %r1, %r0, 3; mov.u64 %x2, table; mad.wide.u32 %x2, %r1, 8, %x2; ld.global.u64 %x1, [%x2];";
  const std::string by_name =
      "mov.u64 %x1, twice; mov.u64 %x2, square; mov.u64 %x3, next; rem.u32 %r1, %r0, 3; setp.eq.u32 %p1, "
      "%r1, 1; @%p1 mov.u64 %x1, %x2; setp.eq.u32 %p1, %r1, 2; @%p1 mov.u64 %x1, %x3;";
  for (const std::string& text :
       {calls(by_table), calls(by_name), calls(by_name, ".calltargets twice, square, next")}) {
    hopper_module(small_module(text, functions));
    const auto run = run_small(text, 64, {.checks = emulator::Checks::all()}, functions);
    INFO(run.report.text());
    REQUIRE(run.report.ok());
    for (std::uint32_t t = 0; t < 64; ++t)
      CHECK(run.out[t] == (t % 3 == 0 ? 2 * t : t % 3 == 1 ? t * t : t + 1));
  }
}

TEST_CASE("a call through a register under a guard", "[emulator]") {
  const auto run =
      run_small("mov.u64 %x1, square; mov.u32 %r9, 7; setp.lt.u32 %p1, %r0, 5;"
                "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; shape: .callprototype (.param .b32 "
                "_) _ (.param .b32 _);"
                "@%p1 call (r), %x1, (a), shape; @%p1 ld.param.b32 %r9, [r]; } st.global.b32 [%x0], %r9;",
                32, {}, functions);
  INFO(run.report.text());
  REQUIRE(run.report.ok());
  for (std::uint32_t t = 0; t < 32; ++t)
    CHECK(run.out[t] == (t < 5 ? t * t : 7));
}

TEST_CASE("calls through registers that hold no function are reported", "[emulator]") {
  const auto finding = [](const std::string& text) {
    const auto run = run_small(text, 32, {}, functions);
    REQUIRE(run.report.findings.size() == 1);
    CHECK(run.report.findings[0].fault == Fault::IllegalOperand);
    CHECK(run.report.findings[0].times == 32);
    return run.report.findings[0].message;
  };
  CHECK_THAT(finding(calls("mov.u64 %x1, 0;")), Catch::Contains("calls 0, where there is no function"));
  CHECK_THAT(finding(calls("mov.u64 %x1, table;")), Catch::Contains(", where there is no function"));
  CHECK_THAT(finding(calls("mov.u64 %x1, wide;")),
             Catch::Contains("calls wide, whose parameters differ from those of this call"));
  const auto refused = [](const std::string& text, const char* why) {
    CHECK_THROWS_WITH(run_small(text, 32, {}, functions), Catch::Contains(why));
  };
  refused(calls("", ".calltargets"), "expected a function");
  refused(calls("", ".calltargets missing"), "the function 'missing' is not declared");
  refused(calls("", ".callprototype _ ()"), "has 1 results, and the function has 0");
  refused(calls("", ".callprototype (.param .b64 _) _ (.param .b32 _)"),
          "'got' has 4 bytes, and '_' of shape has 8");
  refused("call %x1, (), nothing;", "takes a .callprototype or .calltargets, and there is no nothing");
  refused("call %x1;", "after its parameters");
}

TEST_CASE("alloca gives each lane local memory of its own", "[emulator]") {
  // Each lane allocates a different size, writes all of it, calls a function that allocates too, and reads it
  // back.
  const std::string other = R"(
.func (.param .b32 r) busy(.param .b32 a) { .reg .b32 %v<3>; .reg .b64 %y<3>; .local .align 8 .b8 mine[40]; ld.param.b32 %v0, [a];
  mov.u64 %y0, mine; st.local.u32 [%y0+36], %v0; cvt.u64.u32 %y1, %v0; add.u64 %y1, %y1, 8; alloca.u64 %y2, %y1, 8; st.local.u64 [%y2], %y1;
  ld.local.u32 %v1, [%y0+36]; ld.local.u32 %v2, [%y2]; add.u32 %v1, %v1, %v2; st.param.b32 [r], %v1; ret; }
)";
  const std::string text = R"(
  stacksave.u64 %x9; mul.lo.u32 %r1, %r0, 4; add.u32 %r1, %r1, 4; cvt.u64.u32 %x1, %r1; alloca.u64 %x2, %x1, 16; mov.u32 %r2, 0;
FILL: cvt.u64.u32 %x3, %r2; add.u64 %x3, %x3, %x2; add.u32 %r3, %r2, %r0; st.local.u32 [%x3], %r3; add.u32 %r2, %r2, 4;
  setp.lt.u32 %p1, %r2, %r1; @%p1 bra FILL;
  setp.gt.u32 %p2, %r0, 10; mov.u32 %r7, 0; @!%p2 bra SUM;
{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; call (r), busy, (a); ld.param.b32 %r7, [r]; }
SUM: mov.u32 %r2, 0;
ADD: cvt.u64.u32 %x3, %r2; add.u64 %x3, %x3, %x2; ld.local.u32 %r3, [%x3]; add.u32 %r7, %r7, %r3; add.u32 %r2, %r2, 4;
  setp.lt.u32 %p1, %r2, %r1; @%p1 bra ADD;
  and.b64 %x4, %x2, 15; cvt.u32.u64 %r4, %x4; add.u32 %r7, %r7, %r4;
  stackrestore.u64 %x9; alloca.u64 %x5, 8, 16; setp.ne.u64 %p1, %x5, %x2; @%p1 add.u32 %r7, %r7, 1000;
  st.global.u32 [%x0], %r7;)";
  hopper_module(small_module(text, other));
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const auto run = run_small(text, 64, {.seed = seed, .checks = emulator::Checks::all()}, other);
    INFO(run.report.text());
    REQUIRE(run.report.ok());
    for (std::uint32_t t = 0; t < 64; ++t) {
      std::uint32_t expected = t > 10 ? t + t + 8 : 0;
      for (std::uint32_t k = 0; k < 4 * t + 4; k += 4)
        expected += k + t;
      CHECK(run.out[t] == expected);
    }
  }
}

TEST_CASE("misuse of alloca is reported", "[emulator]") {
  const auto finding = [](const std::string& text) {
    const auto run = run_small(text, 1, {.checks = emulator::Checks::all()});
    REQUIRE(run.report.findings.size() == 1);
    return std::string(name_of(run.report.findings[0].fault)) + ": " + run.report.findings[0].message;
  };
  CHECK_THAT(finding("mov.u64 %x1, 1000000; alloca.u64 %x2, %x1;"),
             Catch::Contains("stack overflow") &&
                 Catch::Contains("requests 1000000 bytes, and a thread has 512 KiB"));
  CHECK_THAT(finding("alloca.u64 %x2, 16; ld.local.u32 %r1, [%x2+8];"),
             Catch::Contains("uninitialised read"));
  CHECK_THAT(finding("alloca.u64 %x2, 16; st.local.u32 [%x2+4096], %r0;"), Catch::Contains("out of bounds"));
  CHECK_THAT(finding("mov.u64 %x1, 4096; stackrestore.u64 %x1;"),
             Catch::Contains("restores 4096, which no stacksave of this call returned"));
  CHECK_THROWS_WITH(run_small("alloca.u64 %x2, 16, 3;", 1), Catch::Contains("is a power of two"));
}

TEST_CASE("diverged lanes in one function each have their own local memory", "[emulator]") {
  // Half of the lanes wait in the function for a value that the other half writes there.
  const std::string function = R"(
.func (.param .b32 r) waits(.param .b32 a, .param .b64 flag) { .reg .b32 %v<4>; .reg .b64 %y<2>; .reg .pred %q; .local .align 4 .b8 mine[8];
  ld.param.b32 %v0, [a]; ld.param.b64 %y1, [flag]; mov.u64 %y0, mine; st.local.u32 [%y0], %v0; setp.lt.u32 %q, %v0, 16; @%q bra WAIT;
  mov.u32 %v1, 1; st.release.gpu.global.u32 [%y1], %v1; bra DONE;
WAIT: ld.acquire.gpu.global.u32 %v1, [%y1]; setp.eq.u32 %q, %v1, 0; @%q bra WAIT;
DONE: ld.local.u32 %v2, [%y0]; st.param.b32 [r], %v2; ret; }
)";
  const std::string call = "{ .param .b32 a; .param .b64 f; .param .b32 r; st.param.b32 [a], %r0; "
                           "st.param.b64 [f], %x2; call (r), waits, (a, f); ld.param.b32 %r1, [r]; }";
  const std::string text = "add.u64 %x2, %out, 128; setp.lt.u32 %p1, %r0, 16; @%p1 bra FIRST; " + call +
                           " bra BOTH; FIRST: " + call + " BOTH: st.global.u32 [%x0], %r1;";
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const auto run = run_small(text, 32, {.seed = seed, .checks = {.uninitialised = true}}, function, {}, 33);
    INFO(run.report.text());
    REQUIRE(run.report.ok());
    for (std::uint32_t t = 0; t < 32; ++t)
      CHECK(run.out[t] == t);
  }
}

TEST_CASE("the address of a function's parameter is in local memory", "[emulator]") {
  // The function changes one of two words through its address; each recursive call has a copy.
  const std::string function = R"(
.func (.param .b32 r) picked(.param .align 8 .b8 pair[16], .param .b32 depth)
{
  .reg .b32 %v<8>; .reg .b64 %a<4>; .reg .pred %p;
  mov.b64 %a0, pair; ld.param.b32 %v0, [depth]; and.b32 %v1, %v0, 1; mad.wide.u32 %a1, %v1, 4, %a0;
  ld.local.b32 %v2, [%a1]; add.u32 %v2, %v2, 10; st.local.b32 [%a1], %v2;
  cvta.local.u64 %a2, %a0; ld.v2.b32 {%v3, %v4}, [%a2];
  setp.eq.u32 %p, %v0, 0; @%p bra DONE;
  { .param .align 8 .b8 next[16]; .param .b32 less; .param .b32 got;
    st.param.v2.b32 [next], {%v3, %v4}; sub.u32 %v0, %v0, 1; st.param.b32 [less], %v0;
    call (got), picked, (next, less); ld.param.b32 %v5, [got]; }
  ld.local.v2.b32 {%v3, %v4}, [%a0]; add.u32 %v3, %v3, %v5;
DONE:
  mad.lo.u32 %v3, %v4, 1000, %v3; st.param.b32 [r], %v3; ret;
}
)";
  const std::string body = R"(
{ .param .align 8 .b8 pair[16]; .param .b32 depth; .param .b32 got;
  add.u32 %r1, %r0, 1; st.param.v2.b32 [pair], {%r0, %r1}; and.b32 %r2, %r0, 3; st.param.b32 [depth], %r2;
  call (got), picked, (pair, depth); ld.param.b32 %r9, [got]; }
st.global.b32 [%x0], %r9;)";
  hopper_module(small_module(body, function));
  const auto run = run_small(body, 64, {.checks = emulator::Checks::all()}, function);
  INFO(run.report.text());
  REQUIRE(run.report.ok());
  for (std::uint32_t t = 0; t < 64; ++t) {
    std::uint32_t pair[2] = {t, t + 1}, sum = 0;
    for (std::uint32_t depth = (t & 3) + 1; depth-- > 0;) {
      pair[depth & 1] += 10;
      sum += pair[0] + 1000 * pair[1];
    }
    CHECK(run.out[t] == sum);
  }
}
