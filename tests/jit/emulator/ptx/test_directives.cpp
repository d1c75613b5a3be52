// Tests directives: which bytes of a load are used, and which source lines instructions belong to.
#include "jit/emulator/small_kernel.h"

#include <algorithm>
#include <kiln/dsl/error.h>

using namespace kiln;
using namespace kiln::test;
using emulator::Fault;

namespace {

emulator::Report checked(const std::string& body) {
  emulator::Options o;
  o.checks = emulator::Checks::all();
  return run_small(body, 32, o).report;
}

bool has(const emulator::Report& r, Fault f) {
  return std::any_of(r.findings.begin(), r.findings.end(),
                     [f](const emulator::Finding& x) { return x.fault == f; });
}

} // namespace

TEST_CASE("bytes of a load that are not used are not checked", "[emulator]") {
  // Every thread reads its 16 bytes. It wrote the first 12; the next thread writes the last 4.
  auto load = [](const std::string& pragma, const std::string& also = "", const std::string& use = "") {
    return checked(".shared .align 16 .b8 s[512]; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 16, %r1;\n"
                   "st.shared.v2.u32 [%r2], {%r0, %r0}; st.shared.u32 [%r2+8], %r0;\n" +
                   also + pragma + "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2]; " + use +
                   "st.global.u32 [%x0], %r5;");
  };
  const std::string neighbour = "add.u32 %r7, %r0, 1; and.b32 %r7, %r7, 31; mad.lo.u32 %r7, %r7, 16, %r1; "
                                "st.shared.u32 [%r7+12], %r0;\n";
  for (const char* mask : {"4095", "0xfff", "255"}) {
    const std::string pragma = std::string(".pragma \"used_bytes_mask ") + mask + "\";\n";
    for (const auto& also : {std::string(), neighbour}) {
      const auto r = load(pragma, also);
      INFO(r.text());
      CHECK(r.ok());
    }
    // it applies to the next instruction only
    CHECK(has(load(pragma + "mov.u32 %r9, 0;\n", neighbour), Fault::RaceShared));
    CHECK(has(load(pragma, "", "add.u32 %r5, %r5, %r6; "), Fault::Uninitialised)); // the pragma was wrong
  }
  for (const char* pragma : {"", ".pragma \"used_bytes_mask 0x1fff\";\n", ".pragma \"nounroll\";\n"}) {
    CHECK(load(pragma).ok()); // the bytes are unused all the same
    CHECK(has(load(pragma, "", "add.u32 %r5, %r5, %r6; "), Fault::Uninitialised));
    CHECK(has(load(pragma, neighbour), Fault::RaceShared));
  }
  for (const char* wrong : {"0x", "many", "-1", "0x100000000"})
    CHECK_THROWS_WITH(load(std::string(".pragma \"used_bytes_mask ") + wrong + "\";\n"),
                      Catch::Contains("lacks a number of 32 bits"));
}

TEST_CASE("a function without .loc has no lines of the source", "[emulator]") {
  const std::string text = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 out)
{
  .reg .b64 %x<2>;
  .loc 1 12 3
  mov.u64 %x0, 0; st.global.u32 [%x0], 1;
  ret;
}
.visible .entry second(.param .u64 out)
{
  .reg .b64 %x<2>;
  mov.u64 %x0, 0; st.global.u32 [%x0], 1;
  ret;
}
.file 1 "user.cu"
)";
  emulator::Gpu gpu({.arch = "sm_90a"});
  auto module = emulator::Module::parse(text, "two.ptx");
  const std::uint64_t words[] = {0};
  auto source = [&](const char* kernel) {
    const auto r = gpu.launch(module, kernel, {}, words);
    REQUIRE(r.findings.size() == 1);
    return r.findings[0].source;
  };
  CHECK(source("first") == "user.cu:12");
  CHECK(source("second") == "");
}

TEST_CASE("inlined code has the line of the outermost call, then its own", "[emulator]") {
  auto source = [](const std::string& locations) {
    const auto r =
        run_small(locations + "\nmov.u64 %x1, 0; st.global.u32 [%x1], %r0;", 1, {},
                  ".file 1 \"user.cu\"\n.file 2 \"/include/list.hpp\"\n.file 3 \"/include/item.hpp\"")
            .report;
    REQUIRE(r.findings.size() == 1);
    return r.findings[0].source;
  };
  const std::string at_12 = ".loc 1 12 3\n", at_14 = ".loc 1 14 3\n",
                    in_list = ".loc 2 7 5, function_name $L__info_string0, inlined_at 1 12 3\n",
                    in_item = ".loc 3 9 1, function_name $L__info_string1+8, inlined_at 2 7 5\n";
  CHECK(source(at_12) == "user.cu:12");
  CHECK(source(at_12 + in_list) == "user.cu:12, by list.hpp:7");
  CHECK(source(in_list) == "user.cu:12, by list.hpp:7");
  CHECK(source(at_12 + in_list + in_item) == "user.cu:12, by item.hpp:9");
  CHECK(source(at_12 + in_list + in_item + at_14) == "user.cu:14");
  // The same line of the list, after it was inlined elsewhere.
  CHECK(source(at_12 + in_list + at_14 + ".loc 2 7 5, function_name $L__info_string0, inlined_at 1 14 3\n" +
               in_item) == "user.cu:14, by item.hpp:9");
  CHECK(source(".loc 2 7 5, function_name $L__info_string0, inlined_at 2 7 5\n") ==
        "/include/list.hpp:7, by list.hpp:7");
  CHECK(source(".loc 2 7 5, function_name $L__info_string0, inlined_at 8 7 5\n") == "/include/list.hpp:7");
  CHECK(source(".loc 2 0 5, function_name $L__info_string0, inlined_at 1 12 3\n") == "user.cu:12");
}

TEST_CASE("surplus bytes of an mbarrier are reported as such", "[emulator]") {
  const auto r = checked("setp.ne.u32 %p0, %r0, 0; .shared .align 8 .b64 bar; @%p0 bra WAIT;\n"
                         "mbarrier.init.shared.b64 [bar], 1;\n"
                         "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 256;\n"
                         "mbarrier.arrive.shared.b64 %x1, [bar];\n"
                         "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;");
  CHECK_FALSE(r.finished);
  INFO(r.text());
  CHECK(r.text().find("it lacks 0 of 1 arrivals and has 256 bytes too many") != std::string::npos);
}
