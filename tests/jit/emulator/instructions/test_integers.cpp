// Tests integer instructions against references in wider integers, with edge values and random bits.
#include "one_instruction.h"
#include "test_seed.h"

#include <functional>

using namespace kiln;
using test::OneInstruction;

namespace {

using U = std::uint64_t;
using Wide = __int128;

Wide value(U bits, bool is_signed, int width) {
  if (width < 64) bits &= (U(1) << width) - 1;
  if (is_signed) return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
  return bits;
}
U low(Wide v, int width) {
  return width == 64 ? static_cast<U>(v) : static_cast<U>(v) & ((U(1) << width) - 1);
}

struct Case {
  std::string opcode; // "add"; the type follows
  std::string types;  // "u16 s16 u32 s32 u64 s64"
  int operands;
  bool wide_result = false, wide_c = false, amount_b = false, amounts = false, result_32 = false;
  // width in bits and signedness; values of the operands
  std::function<Wide(Wide, Wide, Wide, int, bool)> reference;
};

Wide shifted_right(Wide a, U n, int width, bool s) {
  if (n >= static_cast<U>(width)) return s && a < 0 ? -1 : 0;
  return a >> n;
}
U bits_from(Wide a, int width) { return low(a, width); }

const std::vector<Case>& cases() {
  static const std::string all = "u16 s16 u32 s32 u64 s64", wide = "u32 s32 u64 s64", b = "b16 b32 b64",
                           narrow = "u16 s16 u32 s32";
  static const std::vector<Case> table = {
      {"add", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a + b; }},
      {"sub", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a - b; }},
      {"mul.lo", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)); }},
      {"mul.hi", narrow, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int w, bool) { return a * b >> w; }},
      {"mul.hi", "s64", 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int w, bool) { return a * b >> w; }},
      {"mul.hi", "u64", 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> 64); }},
      {"mul.wide", narrow, 2, true, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a * b; }},
      {"mad.lo", all, 3, false, false, false, false, false, [](Wide a, Wide b, Wide c, int, bool) { return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) + static_cast<unsigned __int128>(c)); }},
      {"mad.hi", narrow, 3, false, false, false, false, false, [](Wide a, Wide b, Wide c, int w, bool) { return (a * b >> w) + c; }},
      {"mad.wide", narrow, 3, true, true, false, false, false, [](Wide a, Wide b, Wide c, int, bool) { return a * b + c; }},
      {"mul24.lo", "u32 s32", 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool s) { return value(static_cast<U>(a), s, 24) * value(static_cast<U>(b), s, 24); }},
      {"mul24.hi", "u32 s32", 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool s) { return value(static_cast<U>(a), s, 24) * value(static_cast<U>(b), s, 24) >> 16; }},
      {"mad24.lo", "u32 s32", 3, false, false, false, false, false, [](Wide a, Wide b, Wide c, int, bool s) { return value(static_cast<U>(a), s, 24) * value(static_cast<U>(b), s, 24) + c; }},
      {"sad", all, 3, false, false, false, false, false, [](Wide a, Wide b, Wide c, int, bool) { return c + (a < b ? b - a : a - b); }},
      {"div", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return b == 0 ? Wide(-1) : a / b; }},
      {"rem", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return b == 0 ? a : a % b; }},
      {"abs", "s16 s32 s64", 1, false, false, false, false, false, [](Wide a, Wide, Wide, int, bool) { return a < 0 ? -a : a; }},
      {"neg", "s16 s32 s64", 1, false, false, false, false, false, [](Wide a, Wide, Wide, int, bool) { return -a; }},
      {"min", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a < b ? a : b; }},
      {"max", all, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a < b ? b : a; }},
      {"and", b, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a & b; }},
      {"or", b, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a | b; }},
      {"xor", b, 2, false, false, false, false, false, [](Wide a, Wide b, Wide, int, bool) { return a ^ b; }},
      {"not", b, 1, false, false, false, false, false, [](Wide a, Wide, Wide, int, bool) { return ~a; }},
      {"cnot", b, 1, false, false, false, false, false, [](Wide a, Wide, Wide, int, bool) { return Wide(a == 0); }},
      {"shl", b, 2, false, false, true, false, false, [](Wide a, Wide b, Wide, int w, bool) { return b >= w ? Wide(0) : a << static_cast<int>(b); }},
      {"shr", all, 2, false, false, true, false, false, [](Wide a, Wide b, Wide, int w, bool s) { return shifted_right(a, static_cast<U>(b), w, s); }},
      {"popc", "b32 b64", 1, false, false, false, false, true, [](Wide a, Wide, Wide, int w, bool) {
         int n = 0;
         for (int k = 0; k < w; ++k)
           n += static_cast<int>(a >> k & 1);
         return Wide(n);
       }},
      {"clz", "b32 b64", 1, false, false, false, false, true, [](Wide a, Wide, Wide, int w, bool) {
         int n = 0;
         while (n < w && !(a >> (w - 1 - n) & 1))
           ++n;
         return Wide(n);
       }},
      {"bfind", wide, 1, false, false, false, false, true, [](Wide a, Wide, Wide, int w, bool s) {
         const bool flip = s && a < 0;
         for (int k = w - 1; k >= 0; --k)
           if (static_cast<bool>(a >> k & 1) != flip) return Wide(k);
         return Wide(-1);
       }},
      {"brev", "b32 b64", 1, false, false, false, false, false, [](Wide a, Wide, Wide, int w, bool) {
         Wide r = 0;
         for (int k = 0; k < w; ++k)
           if (a >> k & 1) r |= Wide(1) << (w - 1 - k);
         return r;
       }},
      // As the PTX manual defines it, bit by bit.
      {"bfe", wide, 3, false, false, false, true, false, [](Wide a, Wide b, Wide c, int w, bool s) {
         const int pos = static_cast<int>(b & 0xff), len = static_cast<int>(c & 0xff), msb = w - 1;
         const int top = pos + len - 1 < msb ? pos + len - 1 : msb;
         const bool sbit = !s || len == 0 ? false : static_cast<bool>(bits_from(a, w) >> top & 1);
         Wide d = 0;
         for (int k = 0; k <= msb; ++k)
           if (k < len && pos + k <= msb ? static_cast<bool>(bits_from(a, w) >> (pos + k) & 1) : sbit) d |= Wide(1) << k;
         return d;
       }},
  };
  return table;
}

} // namespace

TEST_CASE("integer instructions of the emulated GPU compute what wider integers do", "[emulator]") {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const Case& c : cases()) {
    std::size_t at = 0;
    while (at < c.types.size()) {
      std::size_t end = c.types.find(' ', at);
      if (end == std::string::npos) end = c.types.size();
      const std::string type = c.types.substr(at, end - at);
      at = end + 1;
      const int w = std::atoi(type.c_str() + 1);
      const bool s = type[0] == 's';
      auto reg = [](int bits) { return "b" + std::to_string(bits); };
      const int wd = c.result_32     ? 32
                     : c.wide_result ? 2 * w
                                     : w,
                wc = c.wide_c    ? 2 * w
                     : c.amounts ? 32
                                 : w,
                wb = c.amount_b || c.amounts ? 32 : w;
      OneInstruction i{c.opcode + "." + type + " %d, %a" + (c.operands > 1 ? ", %b" : "") +
                           (c.operands > 2 ? ", %c" : "") + ";",
                       reg(wd),
                       {reg(w)}};
      if (c.operands > 1) i.operands.push_back(reg(wb));
      if (c.operands > 2) i.operands.push_back(reg(wc));
      std::vector<std::vector<U>> in(static_cast<std::size_t>(c.operands));
      for (int n = 0; n < 512; ++n) {
        in[0].push_back(test::random_bits(random, w, false));
        if (c.operands > 1) in[1].push_back(test::random_bits(random, wb, false));
        if (c.operands > 2) in[2].push_back(test::random_bits(random, wc, false));
      }
      const auto found = test::run(i, in);
      for (std::size_t n = 0; n < found.size(); ++n) {
        const Wide a = value(in[0][n], s, w),
                   b = c.operands > 1 ? value(in[1][n], s && wb == w && !c.amount_b && !c.amounts, wb) : 0,
                   cc = c.operands > 2 ? value(in[2][n], s && !c.amounts, wc) : 0;
        const U expected = low(c.reference(a, b, cc, w, s), wd);
        CAPTURE(i.text, in[0][n], c.operands > 1 ? in[1][n] : 0, c.operands > 2 ? in[2][n] : 0);
        REQUIRE(found[n] == expected);
      }
    }
  }
}

namespace {

void check32(const std::string& text, int operands,
             const std::function<std::uint32_t(std::uint32_t, std::uint32_t, std::uint32_t)>& reference) {
  const std::uint64_t seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  OneInstruction i{text, "b32", std::vector<std::string>(static_cast<std::size_t>(operands), "b32")};
  std::vector<std::vector<U>> in(static_cast<std::size_t>(operands));
  for (auto& column : in)
    for (int n = 0; n < 512; ++n)
      column.push_back(test::random_bits(random, 32, false));
  const auto found = test::run(i, in);
  for (std::size_t n = 0; n < found.size(); ++n) {
    auto v = [&](std::size_t k) { return k < in.size() ? static_cast<std::uint32_t>(in[k][n]) : 0; };
    CAPTURE(text, v(0), v(1), v(2));
    REQUIRE(static_cast<std::uint32_t>(found[n]) == reference(v(0), v(1), v(2)));
  }
}

std::int32_t s8(std::uint32_t v, int k) { return static_cast<std::int8_t>(v >> (8 * k)); }
std::uint32_t u8(std::uint32_t v, int k) { return v >> (8 * k) & 0xff; }

} // namespace

TEST_CASE("bit and packed instructions of the emulated GPU", "[emulator]") {
  using W = std::uint32_t;
  check32("lop3.b32 %d, %a, %b, %c, 0xE8;", 3, [](W a, W b, W c) { return (a & b) | (a & c) | (b & c); });
  check32("lop3.b32 %d, %a, %b, %c, 0x96;", 3, [](W a, W b, W c) { return a ^ b ^ c; });
  check32("lop3.b32 %d, %a, %b, %c, 0xCA;", 3, [](W a, W b, W c) { return (a & b) | (~a & c); });
  check32("shf.l.wrap.b32 %d, %a, %b, %c;", 3,
          [](W a, W b, W c) { return (c & 31) ? b << (c & 31) | a >> (32 - (c & 31)) : b; });
  check32("shf.r.wrap.b32 %d, %a, %b, %c;", 3,
          [](W a, W b, W c) { return (c & 31) ? b << (32 - (c & 31)) | a >> (c & 31) : a; });
  check32("shf.l.clamp.b32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    return c == 0 ? b : c >= 32 ? a : b << c | a >> (32 - c);
  });
  check32("shf.r.clamp.b32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    return c == 0 ? a : c >= 32 ? b : b << (32 - c) | a >> c;
  });
  check32("prmt.b32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    W r = 0;
    for (int k = 0; k < 4; ++k) {
      const W n = c >> (4 * k) & 15;
      W byte = u8(n & 4 ? b : a, static_cast<int>(n & 3));
      if (n & 8) byte = byte >> 7 ? 0xff : 0;
      r |= byte << (8 * k);
    }
    return r;
  });
  check32("bfi.b32 %d, %a, %b, %c, 7;", 3, [](W a, W b, W c) {
    W r = b;
    for (W k = 0; k < 7 && (c & 0xff) + k < 32; ++k)
      r = (r & ~(1u << ((c & 0xff) + k))) | (a >> k & 1) << ((c & 0xff) + k);
    return r;
  });
  check32("dp4a.s32.s32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    for (int k = 0; k < 4; ++k)
      c += static_cast<W>(s8(a, k) * s8(b, k));
    return c;
  });
  check32("dp4a.u32.s32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    for (int k = 0; k < 4; ++k)
      c += static_cast<W>(static_cast<std::int32_t>(u8(a, k)) * s8(b, k));
    return c;
  });
  check32("dp2a.lo.s32.u32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    for (int k = 0; k < 2; ++k)
      c += static_cast<W>(static_cast<std::int16_t>(a >> (16 * k)) * static_cast<std::int32_t>(u8(b, k)));
    return c;
  });
  check32("add.sat.s32 %d, %a, %b;", 2, [](W a, W b, W) {
    const std::int64_t r = std::int64_t(static_cast<std::int32_t>(a)) + static_cast<std::int32_t>(b);
    return static_cast<W>(r > 0x7fffffff ? 0x7fffffff : r < -0x80000000ll ? -0x80000000ll : r);
  });
  check32("{.reg .u32 %lo; add.cc.u32 %lo, %a, %b; addc.u32 %d, %c, 0;}", 3,
          [](W a, W b, W c) { return c + static_cast<W>((std::uint64_t(a) + b) >> 32); });
  check32("{.reg .u32 %lo; sub.cc.u32 %lo, %a, %b; subc.u32 %d, %c, 0;}", 3,
          [](W a, W b, W c) { return c - (a < b); });
  // The carry of a difference is that of a + ~b + 1: set where nothing was borrowed, for every instruction
  // that reads it.
  check32("{.reg .u32 %lo; sub.cc.u32 %lo, %a, %b; addc.u32 %d, %c, 0;}", 3,
          [](W a, W b, W c) { return c + (a >= b); });
  check32("{.reg .u32 %lo; add.cc.u32 %lo, %a, %b; subc.u32 %d, %c, 0;}", 3,
          [](W a, W b, W c) { return c - !((std::uint64_t(a) + b) >> 32); });
  check32("{.reg .u32 %lo; sub.cc.u32 %lo, %a, %b; subc.cc.u32 %lo, %b, %c; addc.u32 %d, 0, 0;}", 3,
          [](W a, W b, W c) { return W(b >= std::uint64_t(c) + (a < b)); });
  check32("{.reg .u32 %lo; sub.cc.u32 %lo, %a, %b; madc.lo.u32 %d, %a, %b, %c;}", 3,
          [](W a, W b, W c) { return a * b + c + (a >= b); });
  check32("{.reg .u64 %lo, %wa, %wb; cvt.u64.u32 %wa, %a; cvt.u64.u32 %wb, %b; sub.cc.u64 %lo, %wa, %wb; "
          "subc.cc.u64 %lo, %wb, %wa; addc.u32 %d, %c, 0;}",
          3, [](W a, W b, W c) { return c + (b >= std::uint64_t(a) + (a < b)); });
  check32("{.reg .u32 %lo; mad.lo.cc.u32 %lo, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;}", 3,
          [](W a, W b, W c) { return static_cast<W>((std::uint64_t(a) * b + c) >> 32); });
  check32("{.reg .b16 %l, %h; mov.b32 {%l, %h}, %a; mov.b32 %d, {%h, %l};}", 1,
          [](W a, W, W) { return a << 16 | a >> 16; });
  check32("{.reg .pred %p; setp.lt.and.s32 %p, %a, %b, !%q0; selp.b32 %d, %a, %c, %p;}", 3,
          [](W a, W b, W c) { return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? a : c; });
  check32("slct.b32.s32 %d, %a, %b, %c;", 3,
          [](W a, W b, W c) { return static_cast<std::int32_t>(c) >= 0 ? a : b; });
  check32("set.hi.u32.u32 %d, %a, %b;", 2, [](W a, W b, W) { return a > b ? ~0u : 0u; });
  check32("fns.b32 %d, %a, 5, 2;", 1, [](W a, W, W) {
    int left = 2;
    for (W k = 5; k < 32; ++k)
      if ((a >> k & 1) && --left == 0) return k;
    return ~0u;
  });
  check32("cvt.s32.s8 %d, %a;", 1,
          [](W a, W, W) { return static_cast<W>(static_cast<std::int32_t>(static_cast<std::int8_t>(a))); });
  check32("cvt.sat.u8.s32 %d, %a;", 1, [](W a, W, W) {
    return static_cast<std::int32_t>(a) < 0 ? 0 : a > 255 ? 255 : a;
  });
  check32("cvt.sat.s16.s32 %d, %a;", 1, [](W a, W, W) {
    const auto v = static_cast<std::int32_t>(a);
    return static_cast<W>(v > 32767 ? 32767 : v < -32768 ? -32768 : v);
  });
  check32("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", 3, [](W a, W b, W c) {
    auto clamp = [](W x) { return static_cast<std::int32_t>(x) < 0 ? 0 : x > 255 ? 255 : x; };
    return c << 16 | clamp(a) << 8 | clamp(b);
  });
}
