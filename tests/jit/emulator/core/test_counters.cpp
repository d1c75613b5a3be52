// Tests counters with accesses whose sectors and bank conflicts are known, and blocks on several threads.
#include "jit/emulator/small_kernel.h"
#include "test_seed.h"

#include <kiln/jit/emulator/counters.h>

#include <nlohmann/json.hpp>

using namespace kiln;
using namespace kiln::test;
using emulator::Counters;
using emulator::Counts;

namespace {

struct Counted {
  Counts all;
  std::vector<emulator::LineCounts> lines;
  std::string text, json;
};

Counted count(const std::string& body, std::uint32_t threads = 32, const std::string& before = "") {
  emulator::Gpu gpu({.arch = "sm_90a"});
  Counters counters;
  gpu.attach(&counters);
  auto module = emulator::Module::parse(small_module(body, before), "small.ptx");
  std::vector<std::byte> zeros(1 << 16);
  std::uint64_t out = gpu.allocate(zeros.size()), in = gpu.allocate(zeros.size());
  gpu.write(out, zeros.data(), zeros.size());
  gpu.write(in, zeros.data(), zeros.size());
  std::uint64_t arguments[] = {out, in};
  auto report = gpu.launch(module, "k", {.block = {threads}}, arguments);
  INFO(report.text());
  REQUIRE(report.ok());
  const auto kernels = counters.kernels();
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].launches == 1);
  CHECK(kernels[0].blocks == 1);
  CHECK(kernels[0].all.warp_instructions == report.warp_instructions);
  CHECK(kernels[0].all.lane_instructions == report.lane_instructions);
  return {kernels[0].all, kernels[0].lines, counters.text(), counters.json()};
}

// A load of `bytes` per lane from in + lane * stride.
Counts strided_load(int stride, const std::string& load) {
  return count("ld.param.u64 %x1, [in]; mad.wide.u32 %x1, %r0, " + std::to_string(stride) + ", %x1;\n" + load)
      .all;
}

Counts shared_access(int stride, const std::string& access) {
  return count("mul.lo.u32 %r1, %r0, " + std::to_string(stride) +
                   "; mov.u32 %r2, buffer; add.u32 %r1, %r1, %r2;\n" + access,
               32, ".shared .align 16 .b8 buffer[16384];\n")
      .all;
}

} // namespace

TEST_CASE("global requests cost a sector for each 32 bytes that they access", "[emulator][counters]") {
  const std::string word = "ld.global.u32 %r1, [%x1];",
                    wide = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x1];";
  struct Case {
    int stride;
    std::string load;
    std::uint64_t sectors, bytes;
  };
  for (const Case& c : {Case{4, word, 4, 128}, Case{0, word, 1, 128}, Case{8, word, 8, 128},
                        Case{128, word, 32, 128}, Case{16, wide, 16, 512}, Case{64, wide, 32, 512}}) {
    INFO("stride " << c.stride << ": " << c.load);
    const Counts counts = strided_load(c.stride, c.load);
    CHECK(counts.global.requests == 1);
    CHECK(counts.sectors == c.sectors);
    CHECK(counts.global.read_bytes == c.bytes);
    CHECK(counts.global.written_bytes == 0);
    CHECK(counts.sectors_per_request() == static_cast<double>(c.sectors));
  }
  CHECK(strided_load(8, word).ideal_sectors == 4);
}

TEST_CASE("shared requests cost a wavefront for each word of the busiest bank", "[emulator][counters]") {
  const std::string word = "ld.shared.u32 %r1, [%r1];", two = "st.shared.v2.u32 [%r1], {%r1, %r2};",
                    four = "st.shared.v4.u32 [%r1], {%r1, %r2, %r3, %r4};";
  struct Case {
    int stride;
    std::string access;
    std::uint64_t wavefronts, conflicts;
  };
  for (const Case& c : {Case{4, word, 1, 0}, Case{0, word, 1, 0}, Case{8, word, 2, 1},
                        Case{128, word, 32, 31}, Case{132, word, 1, 0}, Case{8, two, 2, 0},
                        Case{16, two, 4, 2}, Case{16, four, 4, 0}, Case{128, four, 32, 28}}) {
    INFO("stride " << c.stride << ": " << c.access);
    const Counts counts = shared_access(c.stride, c.access);
    CHECK(counts.shared.requests == 1);
    CHECK(counts.wavefronts == c.wavefronts);
    CHECK(counts.bank_conflicts == c.conflicts);
  }
}

TEST_CASE("tensor instructions count their multiplications and additions", "[emulator][counters]") {
  const Counts c =
      count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, "
            "%r3, %r4}, {%r5, %r6}, {%f0, %f1, %f2, %f3};",
            64)
          .all;
  CHECK(c.tensor_instructions == 2);
  CHECK(c.tensor_operations == 2 * 2 * 16 * 8 * 16);
}

TEST_CASE("asynchronous copies count their groups under way", "[emulator][counters]") {
  std::string body =
      "ld.param.u64 %x1, [in]; mul.wide.u32 %x2, %r0, 16; add.u64 %x1, %x1, %x2; shl.b32 %r1, %r0, "
      "4; mov.u32 %r2, buffer; add.u32 %r1, %r1, %r2;\n";
  for (int stage = 0; stage < 3; ++stage)
    body += "cp.async.cg.shared.global [%r1+" + std::to_string(512 * stage) + "], [%x1+" +
            std::to_string(512 * stage) + "], 16; cp.async.commit_group;\n";
  emulator::Gpu gpu({.arch = "sm_90a", .asynchrony = emulator::Asynchrony::Latest});
  Counters counters;
  gpu.attach(&counters);
  auto module = emulator::Module::parse(
      small_module(body + "cp.async.wait_all;", ".shared .align 16 .b8 buffer[2048];\n"), "small.ptx");
  std::vector<std::byte> zeros(2048);
  std::uint64_t in = gpu.allocate(zeros.size());
  gpu.write(in, zeros.data(), zeros.size());
  std::uint64_t arguments[] = {in, in};
  REQUIRE(gpu.launch(module, "k", {.block = {32}}, arguments).ok());
  const Counts c = counters.kernels().at(0).all;
  CHECK(c.async_bytes == 3 * 512);
  CHECK(c.most_stages == 3);
  CHECK(c.most_async_bytes == 3 * 512);
}

TEST_CASE("lines are those of .loc, and tables and JSON have them", "[emulator][counters]") {
  const Counted c = count(
      ".loc 1 7 0\nadd.u32 %r1, %r0, 1;\n@%p1 add.u32 %r1, %r0, 1;\n.loc 1 9 0\nst.global.u32 [%x0], %r1;",
      40, ".file 1 \"add.cu\"\n");
  std::map<std::string, Counts> lines;
  for (const auto& l : c.lines)
    lines[l.place] = l.counts;
  CHECK(lines.at("add.cu:7").warp_instructions == 4);
  CHECK(lines.at("add.cu:7").lane_instructions == 40); // a predicate that was never set is false
  CHECK(lines.at("add.cu:9").global.written_bytes == 160);
  CHECK(lines.at("add.cu:9").sectors == 5);
  CHECK_THAT(c.text, Catch::Contains("kernel k: 1 launch, 1 blocks") && Catch::Contains("add.cu:9"));
  const auto json = nlohmann::json::parse(c.json);
  CHECK(json.at(0).at("counts").at("global").at("sectors") == c.all.sectors);
}

TEST_CASE("results and findings do not depend on the number of host threads", "[emulator][threads]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  // Each block sums over its warps through shared memory, and one thread of each 16th block reads past the
  // end.
  const std::string body =
      "mov.u32 %r1, %ctaid.x; mov.u32 %r9, %ntid.x; mad.lo.u32 %r2, %r1, %r9, %r0; mov.u32 %r3, buffer;\n"
      "shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; mul.lo.u32 %r5, %r2, 2654435761; st.shared.u32 [%r4], "
      "%r5;\n"
      "bar.sync 0; xor.b32 %r6, %r0, 37; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3; ld.shared.u32 %r7, "
      "[%r6];\n"
      "mad.wide.u32 %x1, %r2, 4, %out; st.global.u32 [%x1], %r7;\n"
      "and.b32 %r8, %r2, 1023; setp.eq.u32 %p1, %r8, 5; ld.param.u64 %x2, [in]; @%p1 ld.global.u32 %r7, "
      "[%x2+64];";
  emulator::Options options{.seed = seed, .checks = {.uninitialised = true}};
  std::vector<std::uint32_t> in(16, 1);
  const SmallRun one = run_small(body, 64, options, ".shared .align 4 .b8 buffer[256];\n", in, 64 * 100, 100);
  CHECK(one.report.findings.size() == 1);
  CHECK(one.report.findings.at(0).times == 7);
  for (int threads : {2, 5}) {
    options.threads = threads;
    const SmallRun many =
        run_small(body, 64, options, ".shared .align 4 .b8 buffer[256];\n", in, 64 * 100, 100);
    CHECK(many.out == one.out);
    CHECK(many.report.warp_instructions == one.report.warp_instructions);
    CHECK(many.report.lanes_by_class == one.report.lanes_by_class);
    REQUIRE(many.report.findings.size() == 1);
    CHECK(many.report.findings[0].times == 7);
    CHECK(many.report.findings[0].block == one.report.findings[0].block);
    CHECK(many.report.findings[0].thread == one.report.findings[0].thread);
  }
}
