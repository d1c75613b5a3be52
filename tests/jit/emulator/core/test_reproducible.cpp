// Tests that the same launch gives the same report, wherever its memory is.
#include "jit/emulator/small_kernel.h"

#include <memory>

using namespace kiln;

namespace {

const std::string variables = ".global .b32 word;\n.shared .b32 memory;\n";
const std::string far = R"(
ld.param.u64 %x1, [in];
st.global.u32 [%out], %r0;
st.global.u32 [%out+200], %r0;
st.global.u32 [%out+1000000], %r0;
st.global.u32 [%out+3000000000], %r0;
st.global.u32 [%out+-3000000000], %r0;
st.global.u32 [%x0+1], %r0;
ld.global.u32 %r1, [%x1];
ld.u32 %r1, [%x1+-8];
st.global.u32 [word], %r0;
st.global.u32 [word+64], %r0;
mov.u64 %x2, 64; ld.global.u32 %r1, [%x2];
st.shared.u32 [memory], %r0; ld.shared.u32 %r1, [memory+400];
)";
const std::string near = R"(
.visible .entry near(.param .u64 to, .param .u64 from)
{
.reg .b64 %x<2>; .reg .b32 %r;
ld.param.u64 %x0, [to]; ld.param.u64 %x1, [from]; mov.u32 %r, %tid.x;
st.global.u32 [%x0], %r; st.global.u32 [%x0+257], %r; st.global.u32 [%x0+-4], %r; ld.global.u32 %r, [%x1];
ret;
})";

// Returns a report with addresses of all kinds. `shift` moves the memory.
emulator::Report bad_launch(std::size_t shift, std::uint64_t seed) {
  std::vector<std::unique_ptr<char[]>> elsewhere;
  for (std::size_t n = 0; n < shift; ++n)
    elsewhere.push_back(std::make_unique<char[]>(4096 * (n + 1)));
  emulator::Options o;
  o.arch = "sm_90a";
  o.seed = seed;
  o.checks = emulator::Checks::all();
  emulator::Gpu gpu(o);
  const auto module = emulator::Module::parse(test::small_module(far, variables) + near, "bad.ptx");
  const std::uint64_t freed = gpu.allocate(64, "in");
  gpu.free(freed);
  std::vector<std::uint32_t> host(8192);
  gpu.share(host.data() + 16, 256, "host");
  const std::uint64_t words[] = {gpu.allocate(128, "out"), freed};
  auto report = gpu.launch(module, "k", {.grid = {2}, .block = {64}}, words);
  const std::uint64_t shared[] = {reinterpret_cast<std::uint64_t>(host.data() + 16), words[0]};
  const auto more = gpu.launch(module, "near", {.grid = {2}, .block = {64}}, shared);
  report.findings.insert(report.findings.end(), more.findings.begin(), more.findings.end());
  return report;
}

} // namespace

TEST_CASE("reports are the same wherever memory is", "[emulator]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const auto first = bad_launch(0, seed);
    INFO(first.text());
    REQUIRE(first.findings.size() > 15);
    CHECK(first.text().find("out (128 bytes at 0x30000000000)") != std::string::npos);
    CHECK(first.text().find(" at 0x300000000c8, ") != std::string::npos);
    for (std::size_t shift : {1, 37, 200}) {
      const auto again = bad_launch(shift, seed);
      CHECK(first.text() == again.text());
      CHECK(first.json() == again.json());
    }
  }
}
