// Tests wgmma in every descriptor mode and type against sums in double, in CUTLASS's canonical layouts.
#include "jit/emulator/hopper.h"
#include "left_out.h"
#include "one_instruction.h"
#include "test_seed.h"

#include <kiln/dsl/error.h>
#include <kiln/jit/emulator/core/number.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::emulator;

namespace {

struct Element {
  const char* name;
  int bytes, depth;
  bool integer, sign;
};
const Element f16{"f16", 2, 16, false, true}, bf16{"bf16", 2, 16, false, true},
    tf32{"tf32", 4, 8, false, true}, e4m3{"e4m3", 1, 32, false, true}, e5m2{"e5m2", 1, 32, false, true},
    s8{"s8", 1, 32, true, true}, u8{"u8", 1, 32, true, false};

std::uint32_t bits_of(const Element& e, double v) {
  if (e.integer) return static_cast<std::uint32_t>(static_cast<int>(v)) & 0xff;
  if (e.name == f16.name) return encode(v, format_f16, Rounding::Nearest);
  if (e.name == bf16.name) return encode(v, format_bf16, Rounding::Nearest);
  if (e.name == e4m3.name) return encode(v, format_e4m3, Rounding::Nearest);
  if (e.name == e5m2.name) return encode(v, format_e5m2, Rounding::Nearest);
  return std::bit_cast<std::uint32_t>(static_cast<float>(v));
}
double value_of(const Element& e, std::uint32_t bits) {
  if (e.integer) return e.sign ? static_cast<std::int8_t>(bits) : static_cast<int>(bits);
  if (e.name == f16.name) return decode(bits, format_f16);
  if (e.name == bf16.name) return decode(bits, format_bf16);
  if (e.name == e4m3.name) return decode(bits, format_e4m3);
  if (e.name == e5m2.name) return decode(bits, format_e5m2);
  return std::bit_cast<float>(bits & 0xffffe000);
}

// A canonical layout in units of elements, ((shapes), (shapes)) : strides. The first mode is across (m or n),
// the second along k.
struct Mode {
  int size;
  std::int64_t stride;
};
struct Canonical {
  std::vector<Mode> across, along;
  std::int64_t at(int mn, int k) const {
    std::int64_t offset = 0;
    for (const Mode& m : across) {
      offset += mn % m.size * m.stride;
      mn /= m.size;
    }
    for (const Mode& m : along) {
      offset += k % m.size * m.stride;
      k /= m.size;
    }
    return offset;
  }
};

// One operand in shared memory.
struct Matrix {
  Element element;
  int size = 64;   // m or n
  int swizzle = 0; // 0, 32, 64, 128
  bool mn_major = false;
  int base_offset = 0; // in rows of 128 bytes: the pattern starts there
  int step = 0;        // in units of 32 bytes along k, within the row of the swizzle (K-major)
  std::int64_t leading = 0, stride = 0; // bytes
  std::uint64_t base = 0;               // offset of the pattern in shared memory

  Canonical layout() const {
    const std::int64_t t = 16 / element.bytes, l = leading / element.bytes, s = stride / element.bytes;
    const int big = 1 << 20;
    const int T = static_cast<int>(t);
    if (!mn_major) switch (swizzle) {
      case 0: return {{{8, t}, {big, s}}, {{T, 1}, {2, l}}};
      case 32: return {{{8, 2 * t}, {big, s}}, {{T, 1}, {2, t}}};
      case 64: return {{{8, 4 * t}, {big, s}}, {{T, 1}, {2, t}}};
      default: return {{{8, 8 * t}, {big, s}}, {{T, 1}, {2, t}}};
      }
    switch (swizzle) {
    case 0: return {{{T, 1}, {big, s}}, {{8, t}, {big, l}}};
    case 32: return {{{T, 1}, {2, t}, {big, l}}, {{8, 2 * t}, {big, s}}};
    case 64: return {{{T, 1}, {4, t}, {big, l}}, {{8, 4 * t}, {big, s}}};
    default: return {{{T, 1}, {8, t}, {big, l}}, {{8, 8 * t}, {big, s}}};
    }
  }
  // The offset in shared memory of element (mn, k).
  std::uint64_t place(int mn, int k) const {
    const std::uint64_t in_pattern =
        static_cast<std::uint64_t>(layout().at(mn, k) * element.bytes + 32 * step);
    const std::uint64_t rows = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
    return base + (in_pattern ^ (in_pattern >> 7 & rows) << 4);
  }
  std::uint64_t descriptor() const {
    const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    auto field = [](std::uint64_t v) { return (v & 0x3ffff) >> 4; };
    return field(base + static_cast<std::uint64_t>(32 * step)) |
           field(static_cast<std::uint64_t>(leading)) << 16 |
           field(static_cast<std::uint64_t>(stride)) << 32 | static_cast<std::uint64_t>(base_offset) << 49 |
           mode << 62;
  }
  // Chooses strides for which no two elements overlap.
  void spread(std::mt19937_64& random) {
    const std::int64_t pattern = swizzle ? swizzle * 8 : 128;
    const int groups = mn_major ? size / (swizzle ? swizzle / element.bytes : 8) + 1 : size / 8;
    const std::int64_t gap = static_cast<std::int64_t>(random() % 2);
    if (!mn_major) {
      stride = pattern * (1 + gap);
      leading = swizzle ? 0 : stride * groups; // chunk 1 of all rows follows chunk 0
    } else if (swizzle) {
      leading = pattern * (2 + gap); // two groups of 8 along k for each group across
      stride = pattern;
    } else {
      stride = 128 * (2 + gap);
      leading = 128;
    }
  }
  std::uint64_t end() const {
    std::uint64_t most = 0;
    for (int r = 0; r < size; ++r)
      for (int k = 0; k < element.depth; ++k)
        most = std::max(most, place(r, k) + static_cast<std::uint64_t>(element.bytes));
    return most;
  }
};

struct Case {
  Element a, b;
  const char* result;
  int n = 8;
  Matrix left, right;
  bool a_in_registers = false, negate_a = false, negate_b = false, add = true, saturate = false;
  bool integer() const { return a.integer; }
  bool half() const { return std::string(result) == "f16"; }
  int results() const { return half() ? n / 4 : n / 2; }
};

std::string list(const char* prefix, int first, int count) {
  std::string s = "{";
  for (int k = 0; k < count; ++k)
    s += (k ? ", " : "") + std::string(prefix) + std::to_string(first + k);
  return s + "}";
}

// Threads copy an image to shared memory, load the registers of D and A from `d` and `a`, and store D again.
std::string kernel(const Case& c) {
  std::ostringstream s;
  s << ".version 8.5\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
    << ".visible .entry k(.param .u64 image, .param .u32 bytes, .param .u64 d, .param .u64 a, .param .u64 "
       "desc_a, "
       ".param .u64 desc_b, .param .u32 add) .maxntid 128\n{\n"
    << ".reg .b32 %r<32>; .reg .b64 %x<16>; .reg .pred %p<8>; .reg .b32 %d<" << c.results() + 1
    << ">; .reg .b32 %a<4>;\n"
    << R"(
  ld.param.u64 %x1, [image]; ld.param.u32 %r1, [bytes]; ld.param.u64 %x2, [d]; ld.param.u64 %x3, [a];
  ld.param.u64 %x4, [desc_a]; ld.param.u64 %x5, [desc_b]; ld.param.u32 %r2, [add]; setp.ne.u32 %p1, %r2, 0;
  mov.u32 %r0, %tid.x; mov.u32 %r3, smem; shl.b32 %r4, %r0, 4;
COPY:
  setp.ge.u32 %p2, %r4, %r1; @%p2 bra READY;
  add.u32 %r5, %r3, %r4; cvt.u64.u32 %x6, %r4; add.u64 %x6, %x1, %x6;
  ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%x6]; st.shared.v4.u32 [%r5], {%r6, %r7, %r8, %r9};
  add.u32 %r4, %r4, 2048; bra COPY;
READY:
  fence.proxy.async.shared::cta; bar.sync 0;
  shr.u32 %r10, %r3, 4; cvt.u64.u32 %x7, %r10; add.u64 %x4, %x4, %x7; add.u64 %x5, %x5, %x7;
  mad.wide.u32 %x8, %r0, )"
    << 4 * c.results() << ", %x2; mad.wide.u32 %x9, %r0, 16, %x3;\n";
  for (int k = 0; k < c.results(); ++k)
    s << "  ld.global.b32 %d" << k << ", [%x8+" << 4 * k << "];\n";
  s << "  ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%x9];\n  wgmma.fence.sync.aligned;\n  "
       "wgmma.mma_async.sync.aligned.m64n"
    << c.n << "k" << c.a.depth << "." << c.result << "." << c.a.name << "." << c.b.name
    << (c.saturate ? ".satfinite " : " ") << list("%d", 0, c.results()) << ", "
    << (c.a_in_registers ? "{%a0, %a1, %a2, %a3}" : "%x4") << ", %x5, %p1";
  if (!c.integer()) s << ", " << (c.negate_a ? -1 : 1) << ", " << (c.negate_b ? -1 : 1);
  if (c.a.bytes == 2 && !c.a_in_registers) s << ", " << c.left.mn_major;
  if (c.a.bytes == 2) s << ", " << c.right.mn_major;
  s << ";\n  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  for (int k = 0; k < c.results(); ++k)
    s << "  st.global.b32 [%x8+" << 4 * k << "], %d" << k << ";\n";
  s << "  ret;\n}\n";
  return s.str();
}

// A small integer, so that every order of summation gives the same result, or any number.
double random_value(std::mt19937_64& random, const Element& e, bool exact) {
  if (e.integer)
    return e.sign ? static_cast<double>(static_cast<std::int8_t>(random()))
                  : static_cast<double>(random() & 0xff);
  if (exact) return static_cast<double>(static_cast<int>(random() % 9)) - 4;
  const double v = std::ldexp(static_cast<double>(random() >> 11), -53) * 4 - 2;
  return value_of(e, bits_of(e, v));
}

void check(Case c, std::mt19937_64& random, bool exact, bool assembles) {
  const auto rows = static_cast<std::size_t>(64), n = static_cast<std::size_t>(c.n),
             depth = static_cast<std::size_t>(c.a.depth);
  c.left.element = c.a;
  c.right.element = c.b;
  c.left.size = 64;
  c.right.size = c.n;
  c.left.spread(random);
  c.right.spread(random);
  c.left.base = static_cast<std::uint64_t>(c.left.base_offset) * 128;
  c.right.base = (c.left.end() + 1023) / 1024 * 1024 + static_cast<std::uint64_t>(c.right.base_offset) * 128;
  std::vector<std::uint8_t> image((c.right.end() + 15) / 16 * 16);
  for (auto& b : image)
    b = static_cast<std::uint8_t>(random());
  std::vector<double> a(rows * depth), b(depth * n), d(rows * n);
  auto fill = [&](std::vector<double>& m, const Matrix& in, bool stored) {
    for (int r = 0; r < in.size; ++r)
      for (int k = 0; k < in.element.depth; ++k) {
        const double v = random_value(random, in.element, exact);
        const std::uint32_t bits = bits_of(in.element, v);
        m[static_cast<std::size_t>(r) * depth + static_cast<std::size_t>(k)] = v;
        if (stored) std::memcpy(&image[in.place(r, k)], &bits, static_cast<std::size_t>(in.element.bytes));
      }
  };
  fill(a, c.left, !c.a_in_registers);
  fill(b, c.right, true);
  // Registers, by thread.
  std::vector<std::uint32_t> ra(128 * 4), rd(128 * static_cast<std::size_t>(c.results()));
  const int p = 4 / c.a.bytes;
  for (int t = 0; t < 128; ++t)
    for (int x = 0; x < 4; ++x)
      for (int e = 0; e < p; ++e) {
        const int row = t / 32 * 16 + t % 32 / 4 + 8 * (x % 2), k = p * (t % 4) + 4 * p * (x / 2) + e;
        ra[static_cast<std::size_t>(t * 4 + x)] |=
            bits_of(c.a, a[static_cast<std::size_t>(row) * depth + static_cast<std::size_t>(k)])
            << (8 * c.a.bytes * e);
      }
  auto place = [&](int t, int v) { // value v of thread t in D
    const int row = t / 32 * 16 + t % 32 / 4 + 8 * (v / 2 % 2), column = 8 * (v / 4) + 2 * (t % 4) + v % 2;
    return static_cast<std::size_t>(row * c.n + column);
  };
  for (int t = 0; t < 128; ++t)
    for (int v = 0; v < c.n / 2; ++v) {
      double x = exact || c.integer() ? static_cast<double>(static_cast<int>(random() % 2001) - 1000)
                                      : random_value(random, tf32, false);
      if (c.integer() && random() % 4 == 0)
        x = random() % 2 ? 2147483647.0 - static_cast<double>(random() % 100000) : -2147483648.0;
      if (c.half())
        x = exact ? std::fmod(x, 200) : decode(encode(x, format_f16, Rounding::Nearest), format_f16);
      d[place(t, v)] = x;
      std::uint32_t bits = c.integer() ? static_cast<std::uint32_t>(static_cast<std::int32_t>(x))
                           : c.half()  ? encode(x, format_f16, Rounding::Nearest)
                                       : std::bit_cast<std::uint32_t>(static_cast<float>(x));
      if (c.half())
        rd[static_cast<std::size_t>(t * c.results() + v / 2)] |= bits << (16 * (v % 2));
      else
        rd[static_cast<std::size_t>(t * c.results() + v)] = bits;
    }
  auto module = hopper_module(kernel(c), assembles);
  at_all_moments(
      [&](const Options& o) {
        Gpu gpu(o);
        const std::uint64_t at_image = on_gpu(gpu, image), at_d = on_gpu(gpu, rd), at_a = on_gpu(gpu, ra);
        Parameters q;
        q.add(at_image)
            .add(static_cast<std::uint32_t>(image.size()))
            .add(at_d)
            .add(at_a)
            .add(c.left.descriptor())
            .add(c.right.descriptor())
            .add(std::uint32_t(c.add));
        auto report =
            gpu.launch_packed(module, "k", {.block = {128}, .shared_bytes = image.size()}, q.bytes());
        INFO(report.text() << c.result << " " << c.a.name << " " << c.b.name << " n " << c.n << " swizzles "
                           << c.left.swizzle << " " << c.right.swizzle << " mn-major " << c.left.mn_major
                           << " " << c.right.mn_major << " steps " << c.left.step << " " << c.right.step
                           << " base offsets " << c.left.base_offset << " " << c.right.base_offset
                           << " registers " << c.a_in_registers);
        REQUIRE(report.ok());
        const auto found = from_gpu<std::uint32_t>(gpu, at_d, rd.size());
        std::size_t wrong = 0;
        for (int t = 0; t < 128; ++t)
          for (int v = 0; v < c.n / 2; ++v) {
            const std::size_t at = place(t, v), row = at / n, column = at % n;
            double sum = 0, size = 0;
            for (std::size_t k = 0; k < depth; ++k) {
              const double x = a[row * depth + k] * b[column * depth + k];
              sum += x;
              size += std::fabs(x);
            }
            if (c.negate_a != c.negate_b) sum = -sum;
            if (c.add) sum += d[at];
            size += std::fabs(d[at]);
            if (c.integer()) {
              const std::int64_t exactly = static_cast<std::int64_t>(sum);
              const std::int64_t wanted =
                  c.saturate ? std::clamp<std::int64_t>(exactly, INT32_MIN, INT32_MAX)
                             : static_cast<std::int32_t>(static_cast<std::uint32_t>(exactly));
              wrong +=
                  static_cast<std::int32_t>(found[static_cast<std::size_t>(t * c.results() + v)]) != wanted;
              continue;
            }
            const std::uint32_t word =
                found[static_cast<std::size_t>(c.half() ? t * c.results() + v / 2 : t * c.results() + v)];
            const double got =
                c.half() ? decode(word >> (16 * (v % 2)) & 0xffff, format_f16) : std::bit_cast<float>(word);
            if (exact)
              wrong += c.half() ? got != decode(encode(sum, format_f16, Rounding::Nearest), format_f16)
                                : got != sum;
            else
              wrong += std::fabs(got - sum) > size * (c.half() ? 0x1p-10 : 0x1p-20) + (c.half() ? 1e-4 : 0);
          }
        CHECK(wrong == 0);
      },
      1);
}

} // namespace

TEST_CASE("wgmma reads both operands in every descriptor mode", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  for (const int left : {0, 32, 64, 128})
    for (const int right : {0, 32, 64, 128})
      for (const int majors : {0, 1, 2, 3}) {
        Case c{random() % 2 ? bf16 : f16, {}, "f32", 8 * static_cast<int>(1 + random() % 8), {}, {}};
        c.b = c.a;
        c.left.swizzle = left;
        c.right.swizzle = right;
        c.left.mn_major = majors & 1;
        c.right.mn_major = majors & 2;
        c.add = random() % 4;
        // MN-major operands consist of whole rows of the swizzle.
        if (c.right.mn_major && right) c.n = std::max(c.n / (right / 2) * (right / 2), right / 2);
        for (Matrix* m : {&c.left, &c.right}) {
          if (!m->mn_major && m->swizzle > 32)
            m->step = static_cast<int>(random() % static_cast<std::uint64_t>(m->swizzle / 32));
          if (m->swizzle && random() % 2) m->base_offset = static_cast<int>(random() % 8);
        }
        check(c, random, true, random() % 4 == 0);
      }
}

TEST_CASE("wgmma multiplies every type, into f32, f16 and s32", "[emulator]") {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  const std::pair<Element, Element> floats[] = {{f16, f16},   {bf16, bf16}, {tf32, tf32}, {e4m3, e4m3},
                                                {e4m3, e5m2}, {e5m2, e4m3}, {e5m2, e5m2}},
                                    integers[] = {{s8, s8}, {s8, u8}, {u8, s8}, {u8, u8}};
  constexpr int swizzles[] = {0, 32, 64, 128};
  for (const auto& [a, b] : floats)
    for (const char* result : {"f32", "f16"})
      for (const bool in_registers : {false, true})
        for (const bool exact : {true, false}) {
          if (std::string(result) == "f16" && (a.name == bf16.name || a.name == tf32.name)) continue;
          if (left_out(random)) continue;
          Case c{a, b, result, 8 * static_cast<int>(1 + random() % 32), {}, {}};
          c.left.swizzle = swizzles[random() % 4];
          c.right.swizzle = swizzles[random() % 4];
          c.a_in_registers = in_registers;
          c.negate_a = random() % 2;
          c.negate_b = random() % 2;
          c.add = random() % 3;
          check(c, random, exact, true);
        }
  for (const auto& [a, b] : integers)
    for (const bool in_registers : {false, true})
      for (const bool saturate : {false, true}) {
        constexpr int sizes[] = {8, 16, 24, 32, 48, 96, 224, 256};
        if (left_out(random)) continue;
        Case c{a, b, "s32", sizes[random() % 8], {}, {}};
        c.left.swizzle = swizzles[random() % 4];
        c.right.swizzle = swizzles[random() % 4];
        c.a_in_registers = in_registers;
        c.saturate = saturate;
        c.add = random() % 3;
        check(c, random, true, true);
      }
}
