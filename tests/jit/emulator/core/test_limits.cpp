// Tests limits of launches: the budget, blocks that have not started, the size of clusters.
#include "jit/emulator/small_kernel.h"

#include <kiln/dsl/error.h>

#include <chrono>

using namespace kiln;
using emulator::Fault;
using test::run_small;

TEST_CASE("a grid too large for the budget is reported at once", "[emulator]") {
  emulator::Gpu gpu({.arch = "sm_90a"});
  auto module = emulator::Module::parse(test::small_module(""), "small.ptx");
  const std::uint64_t words[] = {gpu.allocate(4), gpu.allocate(4)};
  const auto start = std::chrono::steady_clock::now();
  const auto report = gpu.launch(module, "k", {.grid = {0x7fffffff, 65535, 65535}, .block = {32}}, words);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  REQUIRE(report.findings.size() == 1);
  CHECK_FALSE(report.finished);
  CHECK(report.findings[0].fault == Fault::Budget);
  CHECK_THAT(report.findings[0].message,
             Catch::Contains("a grid of 9223090559730712575 blocks") && Catch::Contains("--budget"));
}

TEST_CASE("the starts of blocks count in the budget", "[emulator]") {
  emulator::Options options;
  // The start of a block of one warp counts 64, and the block has a few instructions.
  options.instruction_budget = 64 * 100 + 500;
  auto r = run_small("", 32, options, "", {}, 32, 60).report;
  INFO(r.text());
  CHECK(r.ok());
  r = run_small("", 32, options, "", {}, 32, 105).report;
  REQUIRE(r.findings.size() == 1);
  CHECK(r.findings[0].fault == Fault::Budget);
  CHECK_THAT(r.findings[0].message,
             Catch::Contains("after 6900 instructions of warps, the budget of the launch") &&
                 Catch::Contains("--budget of kiln emulate"));
  for (const int threads : {1, 2}) { // whichever threads run them
    options.threads = threads;
    r = run_small("", 32, options, "", {}, 32, 105).report;
    CHECK_FALSE(r.finished);
  }
}

TEST_CASE("an endless loop of faults ends before the budget does", "[emulator]") {
  const auto start = std::chrono::steady_clock::now();
  const auto r = run_small("mov.u64 %x1, 0; LOOP: st.global.u32 [%x1], %r1; add.u64 %x1, %x1, 4; and.b64 "
                           "%x1, %x1, 255; add.u32 %r1, %r1, 1; bra LOOP;",
                           32)
                     .report;
  INFO(r.text());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30)); // with sanitizers; 2 without
  REQUIRE(r.findings.size() == 2);
  CHECK(r.findings[0].fault == Fault::OutOfBounds);
  CHECK(r.findings[1].fault == Fault::Budget);
  CHECK_THAT(r.findings[1].message,
             Catch::Contains("after 2099200 more findings at places that were already reported"));
  CHECK_FALSE(r.finished);
  CHECK(r.warp_instructions < 1'000'000);
}

TEST_CASE("a wait for a block that has not started is reported with the advice to let more be resident",
          "[emulator]") {
  const std::string body = R"(
      ld.param.u64 %x1, [in]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra RAISE;
      SPIN: ld.acquire.gpu.global.u32 %r2, [%x1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN; bra DONE;
      RAISE: st.release.gpu.global.u32 [%x1], 1;
      DONE:)";
  emulator::Options options;
  auto r = run_small(body, 1, options, "", {0}, 1, 3).report;
  INFO(r.text());
  REQUIRE(r.findings.size() == 1);
  CHECK(r.findings[0].fault == Fault::Deadlock);
  CHECK_THAT(r.findings[0].message,
             Catch::Contains("2 blocks have not started") && Catch::Contains("--resident"));
  options.resident_blocks = 3;
  CHECK(run_small(body, 1, options, "", {0}, 1, 3).report.ok());
  // The hint is not given where all blocks have started.
  r = run_small("ld.param.u64 %x1, [in]; SPIN: ld.acquire.gpu.global.u32 %r2, [%x1]; setp.eq.u32 %p2, %r2, "
                "0; @%p2 bra "
                "SPIN;",
                1, options, "", {0}, 1, 3)
          .report;
  INFO(r.text());
  REQUIRE(r.findings.size() == 1);
  CHECK(r.findings[0].message.find("--resident") == std::string::npos);
}

TEST_CASE("clusters have as many blocks as a GPU can have together", "[emulator]") {
  auto launch = [](std::uint32_t blocks, bool allowed) {
    std::string text = test::small_module("");
    const std::string head = ".param .u64 in)";
    text.replace(text.find(head), head.size(),
                 head + " .explicitcluster .reqnctapercluster " + std::to_string(blocks) + ", 1, 1");
    emulator::Gpu gpu({.arch = "sm_90a"});
    const std::uint64_t words[] = {gpu.allocate(128), gpu.allocate(4)};
    return gpu.launch(emulator::Module::parse(text, "small.ptx"), "k",
                      {.grid = {blocks}, .block = {32}, .non_portable_cluster = allowed}, words);
  };
  CHECK(launch(8, false).ok());
  CHECK(launch(16, true).ok());
  CHECK_THROWS_WITH(launch(9, false),
                    Catch::Contains("a cluster of 9 x 1 x 1 blocks; more than 8 are not portable"));
  CHECK_THROWS_WITH(launch(17, true), Catch::Contains("it has at most 16 in all"));
  CHECK_THROWS_AS(launch(17, false), UserError);
}
