// Tests shapes and types of mma.sync against each other: a product is the sum of the products of its halves.
//
// The elements are in the registers that PTX documents. test_triton.cpp compares larger shapes with
// references.
#include "jit/emulator/small_kernel.h"
#include "test_seed.h"

#include <functional>
#include <random>

using namespace kiln;

namespace {

constexpr int most_inputs = 12; // words per lane

// Runs `body`, in which %r10 and up are inputs of the lane. Returns word n of lane l at [n * 32 + l].
std::vector<std::uint32_t> run(const std::string& body, const std::vector<std::string>& results,
                               const std::function<std::uint32_t()>& word) {
  std::string text = "ld.param.u64 %x1, [in]; mad.wide.u32 %x1, %r0, 4, %x1;\n";
  for (int n = 0; n < most_inputs; ++n)
    text += "ld.global.b32 %r" + std::to_string(10 + n) + ", [%x1+" + std::to_string(128 * n) + "];\n";
  text += body;
  for (std::size_t n = 0; n < results.size(); ++n)
    text += "\nst.global.b32 [%x0+" + std::to_string(128 * n) + "], " + results[n] + ";";
  std::vector<std::uint32_t> in;
  for (int n = 0; n < 32 * most_inputs; ++n)
    in.push_back(word());
  auto r = test::run_small(text, 32, {}, "", in, 32 * results.size());
  INFO(r.report.text());
  REQUIRE(r.report.ok());
  return r.out;
}

// Checks that the first half of the results equals the second.
void check_equal(const std::string& body, const std::vector<std::string>& results,
                 const std::function<std::uint32_t()>& word) {
  const auto out = run(body, results, word);
  bool any = false;
  for (std::size_t n = 0; n < out.size() / 2; ++n) {
    CAPTURE(body, n / 32, n % 32);
    REQUIRE(out[n] == out[n + out.size() / 2]);
    any |= out[n] != 0;
  }
  CHECK(any);
}

template <class... T> std::uint32_t packed(T... bits) {
  std::uint32_t word = 0;
  int at = 0;
  ((word |= static_cast<std::uint32_t>(bits) << at, at += 32 / static_cast<int>(sizeof...(T))), ...);
  return word;
}

const std::vector<std::string> floats{"%f1", "%f2", "%f3", "%f4", "%f11", "%f12", "%f13", "%f14"},
    integers{"%r1", "%r2", "%r3", "%r4", "%r5", "%r6", "%r7", "%r8"};
const std::string zero_floats = "{%f0, %f0, %f0, %f0}";

} // namespace

TEST_CASE("mma.sync of half the depth, twice, is that of the whole", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // Inputs are 0, 1, -1 and 2 in each format, so that sums are exact.
  const auto pick = [&](auto... values) {
    const std::uint32_t all[] = {static_cast<std::uint32_t>(values)...};
    return all[random() % sizeof...(values)];
  };
  const auto f16 = [&] { return pick(0, 0x3c00, 0xbc00, 0x4000); };
  const auto bf16 = [&] { return pick(0, 0x3f80, 0xbf80, 0x4000); };
  for (const auto& [type, value] :
       {std::pair<std::string, std::function<std::uint32_t()>>{"f16", f16}, {"bf16", bf16}}) {
    const std::string types = ".row.col.f32." + type + "." + type + ".f32 ";
    check_equal("mov.f32 %f0, 0f00000000;\n"
                "mma.sync.aligned.m16n8k16" +
                    types + "{%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, " + zero_floats +
                    ";\n"
                    "mma.sync.aligned.m16n8k8" +
                    types + "{%f5, %f6, %f7, %f8}, {%r10, %r11}, {%r14}, " + zero_floats +
                    ";\n"
                    "mma.sync.aligned.m16n8k8" +
                    types + "{%f11, %f12, %f13, %f14}, {%r12, %r13}, {%r15}, {%f5, %f6, %f7, %f8};",
                floats, [&] { return packed(value(), value()); });
  }
  check_equal(
      "mov.f32 %f0, 0f00000000;\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, "
      "{%r14, %r15}, " +
          zero_floats +
          ";\n"
          "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f5, %f6, %f7, %f8}, {%r10, %r11}, {%r14}, " +
          zero_floats +
          ";\n"
          "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f11, %f12, %f13, %f14}, {%r12, %r13}, "
          "{%r15}, {%f5, %f6, %f7, %f8};",
      floats, [&] { return pick(0, 0x3f800000, 0xbf800000, 0x40000000); });
  for (const std::string type : {"s8", "u8"}) {
    const std::string types = ".row.col.s32." + type + "." + type + ".s32 ";
    check_equal("mov.b32 %r9, 0;\n"
                "mma.sync.aligned.m16n8k32" +
                    types +
                    "{%r1, %r2, %r3, %r4}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r9, %r9, %r9, %r9};\n"
                    "mma.sync.aligned.m16n8k16" +
                    types +
                    "{%r22, %r23, %r24, %r25}, {%r10, %r11}, {%r14}, {%r9, %r9, %r9, %r9};\n"
                    "mma.sync.aligned.m16n8k16" +
                    types + "{%r5, %r6, %r7, %r8}, {%r12, %r13}, {%r15}, {%r22, %r23, %r24, %r25};",
                integers, [&] { return static_cast<std::uint32_t>(random()); });
    // The upper and the lower eight rows separately.
    check_equal("mov.b32 %r9, 0;\n"
                "mma.sync.aligned.m16n8k16" +
                    types +
                    "{%r1, %r2, %r3, %r4}, {%r10, %r11}, {%r14}, {%r9, %r9, %r9, %r9};\n"
                    "mma.sync.aligned.m8n8k16" +
                    types +
                    "{%r5, %r6}, {%r10}, {%r14}, {%r9, %r9};\n"
                    "mma.sync.aligned.m8n8k16" +
                    types + "{%r7, %r8}, {%r11}, {%r14}, {%r9, %r9};",
                integers, [&] { return static_cast<std::uint32_t>(random()); });
  }
}

TEST_CASE("mma.sync of other types gives the same small numbers", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // Inputs are bytes 0 to 3 in %r10 and up. The code maps them to 0, 1, 2 and -1 in each 8-bit type.
  const auto byte = [&] { return static_cast<std::uint32_t>(random() % 4); };
  const auto word = [&] { return packed(byte(), byte(), byte(), byte()); };
  // prmt looks each nibble up in four bytes: e4m3 0, 1, 2, -1 and e5m2 0, 1, 2, -1.
  std::string look_up;
  for (int n = 10; n < 16; ++n) {
    const std::string in = std::to_string(n), e4m3 = std::to_string(n + 12), e5m2 = std::to_string(n + 18);
    look_up += "shr.b32 %r1, %r" + in + ", 4; or.b32 %r1, %r1, %r" + in +
               "; and.b32 %r2, %r1, 0x33; shr.b32 %r3, %r1, 8; "
               "and.b32 %r3, %r3, 0x3300; or.b32 %r2, %r2, %r3; mov.b32 %r4, 0xb8403800; prmt.b32 %r" +
               e4m3 +
               ", %r4, 0, %r2; "
               "mov.b32 %r4, 0xbc403c00; prmt.b32 %r" +
               e5m2 + ", %r4, 0, %r2;\n";
  }
  const std::string fp8 = "{%r22, %r23, %r24, %r25}, {%r26, %r27}, ",
                    other = "{%r28, %r29, %r30, %r31}, {%r32, %r33}, ";
  check_equal(look_up +
                  "mov.f32 %f0, 0f00000000;\n"
                  "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, " +
                  fp8 + zero_floats +
                  ";\n"
                  "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%f11, %f12, %f13, %f14}, " +
                  other + zero_floats + ";",
              floats, word);
  check_equal(look_up +
                  "mov.f32 %f0, 0f00000000;\n"
                  "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1, %f2, %f3, %f4}, {%r22, %r23, "
                  "%r24, %r25}, {%r32, %r33}, " +
                  zero_floats +
                  ";\n"
                  "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%f11, %f12, %f13, %f14}, {%r28, "
                  "%r29, %r30, %r31}, {%r26, %r27}, " +
                  zero_floats + ";",
              floats, word);
  // Sums in f16: two per register.
  const auto halves = [&] { return packed(random() % 2 ? 0x3c00 : 0xc000, random() % 2 ? 0x4000 : 0); };
  check_equal("mov.f32 %f0, 0f00000000; mov.b32 %r9, 0;\n"
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, "
              "%r13}, {%r14, %r15}, " +
                  zero_floats +
                  ";\n"
                  "cvt.rn.f16x2.f32 %r1, %f2, %f1; cvt.rn.f16x2.f32 %r2, %f4, %f3;\n"
                  "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r3, %r4}, {%r10, %r11, %r12, %r13}, "
                  "{%r14, %r15}, {%r9, %r9};",
              {"%r1", "%r2", "%r3", "%r4"}, halves);
}

TEST_CASE("mma.sync of f64 in four shapes", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // Integers of up to 100 as doubles: %x10 and up from %r10 and up.
  std::string widen;
  for (int n = 10; n < 22; ++n)
    widen += "cvt.rn.f64.s32 %x" + std::to_string(n) + ", %r" + std::to_string(n) + ";\n";
  widen += "mov.b64 %x2, 0;\n";
  const auto word = [&] { return static_cast<std::uint32_t>(static_cast<int>(random() % 201) - 100); };
  const auto shape = [](const std::string& s) {
    return "mma.sync.aligned." + s + ".row.col.f64.f64.f64.f64 ";
  };
  std::string narrow;
  const auto to_integer = [&](int n, int x) {
    narrow += "\ncvt.rzi.s32.f64 %r" + std::to_string(n) + ", %x" + std::to_string(x) + ";";
  };
  for (int n = 0; n < 4; ++n)
    to_integer(1 + n, 22 + n), to_integer(5 + n, 26 + n);
  const std::string zeros = "{%x2, %x2, %x2, %x2}";
  check_equal(widen + shape("m16n8k4") + "{%x22, %x23, %x24, %x25}, {%x10, %x11}, {%x14}, " + zeros + ";\n" +
                  shape("m8n8k4") + "{%x26, %x27}, {%x10}, {%x14}, {%x2, %x2};\n" + shape("m8n8k4") +
                  "{%x28, %x29}, {%x11}, {%x14}, {%x2, %x2};" + narrow,
              integers, word);
  check_equal(
      widen + shape("m16n8k8") + "{%x22, %x23, %x24, %x25}, {%x10, %x11, %x12, %x13}, {%x14, %x15}, " +
          zeros + ";\n" + shape("m16n8k4") + "{%x3, %x4, %x5, %x6}, {%x10, %x11}, {%x14}, " + zeros + ";\n" +
          shape("m16n8k4") + "{%x26, %x27, %x28, %x29}, {%x12, %x13}, {%x15}, {%x3, %x4, %x5, %x6};" + narrow,
      integers, word);
  check_equal(widen + shape("m16n8k16") +
                  "{%x22, %x23, %x24, %x25}, {%x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17}, {%x18, %x19, "
                  "%x20, %x21}, " +
                  zeros + ";\n" + shape("m16n8k8") +
                  "{%x3, %x4, %x5, %x6}, {%x10, %x11, %x12, %x13}, {%x18, %x19}, " + zeros + ";\n" +
                  shape("m16n8k8") +
                  "{%x26, %x27, %x28, %x29}, {%x14, %x15, %x16, %x17}, {%x20, %x21}, {%x3, %x4, %x5, %x6};" +
                  narrow,
              integers, word);
}

TEST_CASE("movmatrix transposes, and stmatrix stores what ldmatrix loads", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto word = [&] { return static_cast<std::uint32_t>(random()); };
  // Transposing twice gives the original; storing and then loading with .trans transposes once.
  check_equal(
      ".shared .align 16 .b8 s[512]; mov.u32 %r5, s; and.b32 %r6, %r0, 7; mad.lo.u32 %r6, %r6, 16, %r5;\n"
      "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r10; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r3;\n"
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r10}; bar.sync 0;\n"
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r4}, [%r6]; mov.b32 %r2, %r10;",
      {"%r1", "%r3", "%r2", "%r4"}, word);
  // stmatrix.trans and a plain load against movmatrix; four matrices, each with its own rows.
  check_equal(
      ".shared .align 16 .b8 s[512]; mov.u32 %r5, s; mad.lo.u32 %r6, %r0, 16, %r5;\n"
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r6], {%r10, %r11, %r12, %r13}; bar.sync 0;\n"
      "mad.lo.u32 %r7, %r0, 4, %r5; ld.shared.b32 %r1, [%r7]; ld.shared.b32 %r2, [%r7+128]; ld.shared.b32 "
      "%r3, [%r7+256]; "
      "ld.shared.b32 %r4, [%r7+384];\n"
      "movmatrix.sync.aligned.m8n8.trans.b16 %r22, %r10; movmatrix.sync.aligned.m8n8.trans.b16 %r23, %r11; "
      "movmatrix.sync.aligned.m8n8.trans.b16 %r24, %r12; movmatrix.sync.aligned.m8n8.trans.b16 %r25, %r13;",
      {"%r1", "%r2", "%r3", "%r4", "%r22", "%r23", "%r24", "%r25"}, word);
}

TEST_CASE("wmma matrices are reported at an alignment that neither CUDA nor the ISA allows", "[emulator]") {
  // `offset` is added to the address in bytes; `stride` is in elements.
  auto reported = [](const std::string& instruction, int offset, int stride) {
    std::string text = "ld.param.u64 %x1, [in]; add.u64 %x1, %x1, " + std::to_string(offset) +
                       "; mov.u32 %r30, " + std::to_string(stride) + ";\n";
    for (int r = 0; r < 8; ++r)
      text += "mov.b32 %f" + std::to_string(r) + ", 0; ";
    text += instruction + ", %r30;\n";
    const auto r = test::run_small(text, 32, {}, "", std::vector<std::uint32_t>(1024));
    INFO(text << r.report.text());
    CHECK(r.report.findings.size() <= 1);
    if (r.report.ok()) return std::string();
    CHECK(r.report.findings[0].fault == emulator::Fault::Misaligned);
    return r.report.findings[0].message;
  };
  const std::string f16 = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10, %r11, %r12, %r13, %r14, "
                          "%r15, %r16, %r17}, [%x1]",
                    bf16 =
                        "wmma.load.b.sync.aligned.col.m16n16k16.global.bf16 {%r10, %r11, %r12, %r13}, [%x1]",
                    s8 = "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r10, %r11}, [%x1]",
                    f32 =
                        "wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%x1], {%f0, %f1, %f2, %f3, %f4, "
                        "%f5, %f6, %f7}";
  CHECK(reported(f16, 0, 16) == "");
  CHECK(reported(f16, 32, 24) == ""); // rows of 48 bytes, which CUDA accepts
  CHECK(reported(f16, 16, 16).find("where a multiple of 32 is needed") != std::string::npos);
  CHECK(reported(f16, 0, 20)
            .find("reads a matrix whose rows are 40 bytes apart, where a multiple of 16 is needed") !=
        std::string::npos);
  CHECK(reported(bf16, 16, 24) == "");
  CHECK(reported(bf16, 8, 24).find("where a multiple of 16 is needed") != std::string::npos);
  CHECK(reported(bf16, 0, 20).find("whose columns are 40 bytes apart") != std::string::npos);
  CHECK(reported(s8, 8, 24) == "");
  CHECK(reported(s8, 4, 24).find("where a multiple of 8 is needed") != std::string::npos);
  CHECK(reported(s8, 0, 20).find("whose rows are 20 bytes apart") != std::string::npos);
  CHECK(reported(f32, 32, 20) == "");
  CHECK(reported(f32, 16, 16).find("where a multiple of 32 is needed") != std::string::npos);
  CHECK(reported(f32, 0, 18).find("writes a matrix whose columns are 72 bytes apart") != std::string::npos);
}
