// Tests arithmetic on halves and bytes of a register: .s16x2, .u16x2 and the SIMD video instructions.
#include "jit/emulator/hopper.h"
#include "one_instruction.h"
#include "test_seed.h"

#include <algorithm>
#include <kiln/dsl/error.h>

using namespace kiln;
using test::OneInstruction;

namespace {

using U = std::uint64_t;

int element(U word, int n, int bits, bool is_signed) {
  const int v = static_cast<int>(word >> (n * bits) & ((1u << bits) - 1));
  return is_signed && v >> (bits - 1) ? v - (1 << bits) : v;
}

struct Video {
  std::string op; // "vadd", or "vset.lt"
  int elements;
  bool d_signed, a_signed, b_signed, saturates, accumulates;
  std::string mask, a, b; // digits, the highest element first; empty: all elements, those of a, those of b

  std::string text() const {
    auto type = [](bool s) { return s ? std::string(".s32") : std::string(".u32"); };
    auto selector = [&](const std::string& digits) {
      return digits.empty() ? "" : (elements == 2 ? ".h" : ".b") + digits;
    };
    const bool sets = op.substr(0, 4) == "vset";
    return op.substr(0, op.find('.')) + std::to_string(elements) + (sets ? "" : type(d_signed)) +
           type(a_signed) + type(b_signed) + (sets ? op.substr(4) : "") + (saturates ? ".sat" : "") +
           (accumulates ? ".add" : "") + " %d" + selector(mask) + ", %a" + selector(a) + ", %b" +
           selector(b) + ", %c;";
  }

  int computed(int x, int y) const {
    if (op == "vadd") return x + y;
    if (op == "vsub") return x - y;
    if (op == "vavrg") return x + y >= 0 ? (x + y + 1) / 2 : (x + y - ((x + y) & 1)) / 2; // rounds down
    if (op == "vabsdiff") return x < y ? y - x : x - y;
    if (op == "vmin") return x < y ? x : y;
    if (op == "vmax") return x < y ? y : x;
    const std::string c = op.substr(5);
    return c == "eq"   ? x == y
           : c == "ne" ? x != y
           : c == "lt" ? x < y
           : c == "le" ? x <= y
           : c == "gt" ? x > y
                       : x >= y;
  }

  U reference(U x, U y, U z) const {
    const int bits = 32 / elements;
    const U both = y << 32 | x;
    auto digit = [&](const std::string& s, int n) {
      return s[s.size() - 1 - static_cast<std::size_t>(n)] - '0';
    };
    U d = z;
    for (int n = 0; n < elements; ++n) {
      if (!mask.empty() && mask.find(static_cast<char>('0' + n)) == std::string::npos) continue;
      int t = computed(element(both, a.empty() ? n : digit(a, n), bits, a_signed),
                       element(both, b.empty() ? n + elements : digit(b, n), bits, b_signed));
      if (saturates)
        t = d_signed ? std::clamp(t, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
                     : std::clamp(t, 0, (1 << bits) - 1);
      if (accumulates) {
        d = (d + static_cast<U>(static_cast<std::int64_t>(t))) & 0xffffffff;
        continue;
      }
      const U ones = ((U(1) << bits) - 1) << (n * bits);
      d = (d & ~ones) | (static_cast<U>(static_cast<std::int64_t>(t)) << (n * bits) & ones);
    }
    return d;
  }
};

U word(std::mt19937_64& random) {
  static constexpr U edges[] = {0x80008000, 0x7fff7fff, 0xffffffff, 0x80808080,
                                0x7f7f7f7f, 0,          0x00ff00ff, 0x8000ffff};
  return random() % 3 ? random() & 0xffffffff : edges[random() % std::size(edges)];
}

void refused(const std::string& text, const std::string& why) {
  OneInstruction i{text, "b32", {"b32", "b32", "b32"}};
  CHECK_THROWS_WITH(test::run(i, {{1}, {2}, {3}}), Catch::Contains(why));
}

} // namespace

TEST_CASE("video instructions on halves and bytes", "[emulator]") {
  const U seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string all;
  for (int round = 0; round < 160; ++round) {
    static const std::string names[] = {"vadd",    "vsub",    "vavrg",   "vabsdiff", "vmin",    "vmax",
                                        "vset.eq", "vset.ne", "vset.lt", "vset.le",  "vset.gt", "vset.ge"};
    Video v{names[static_cast<std::size_t>(round) % std::size(names)],
            random() % 2 ? 2 : 4,
            random() % 2 == 0,
            random() % 2 == 0,
            random() % 2 == 0,
            false,
            random() % 3 == 0,
            "",
            "",
            ""};
    v.saturates = !v.accumulates && v.op.substr(0, 4) != "vset" && random() % 2;
    auto digits = [&](int most) {
      std::string s;
      for (int n = 0; n < v.elements; ++n)
        s += static_cast<char>('0' + random() % static_cast<U>(most));
      return s;
    };
    if (random() % 2) v.a = digits(2 * v.elements);
    if (random() % 2) v.b = digits(2 * v.elements);
    if (random() % 2)
      for (int n = v.elements - 1; n >= 0; --n)
        if (random() % 2) v.mask += static_cast<char>('0' + n);
    CAPTURE(v.text());
    std::vector<std::vector<U>> in(3);
    for (int n = 0; n < 96; ++n)
      for (auto& operand : in)
        operand.push_back(word(random));
    const OneInstruction i{v.text(), "b32", {"b32", "b32", "b32"}};
    if (round < 12) test::hopper_module(test::ptx_of(i)); // ptxas accepts it, too
    const auto found = test::run(i, in);
    for (std::size_t n = 0; n < found.size(); ++n) {
      CAPTURE(in[0][n], in[1][n], in[2][n]);
      REQUIRE(found[n] == v.reference(in[0][n], in[1][n], in[2][n]));
    }
  }
}

TEST_CASE("video instructions as ptxas folds them", "[emulator]") {
  const OneInstruction i{"vadd4.u32.u32.u32 %d, %a, %b, %c;", "b32", {"b32", "b32", "b32"}};
  CHECK(test::run(i, {{0x01020304}, {0x10203040}, {7}})[0] == 0x11223344);
}

TEST_CASE("video instructions that do not exist", "[emulator]") {
  refused("vadd4.u32.u32.u32.sat.add %d, %a, %b, %c;", ".sat or .add, not both");
  refused("vadd4.u32.u32.u32 %d, %a, %b;", "has 3 operands, and takes 4");
  refused("vadd4.u32.u32.u32 %d.b4, %a, %b, %c;", "has the selector .b4, which does not exist there");
  refused("vadd4.u32.u32.u32 %d, %a.b8888, %b, %c;", "has the selector .b8888");
  refused("vadd2.u32.u32.u32 %d, %a.b10, %b, %c;", "has the selector .b10");
  refused("vadd2.u32.u32.u32 %d, %a.h1, %b, %c;", "takes selectors of 2 elements");
  refused("vadd2.u32.u32.u64 %d, %a, %b, %c;", "takes .u32 and .s32 only");
  refused("vset2.u32.u32 %d, %a, %b, %c;", "takes .eq, .ne");
  refused("vmin2.u32.u32.u32.lt %d, %a, %b, %c;", "the modifier .lt");
  refused("vadd3.u32.u32.u32 %d, %a, %b, %c;", "'vadd3' is not known");
}

TEST_CASE("add, min and max of packed halves", "[emulator]") {
  const U seed = test::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::string op : {"add", "min", "max", "min.relu", "max.relu"})
    for (const bool is_signed : {false, true}) {
      const bool relu = op.size() > 3;
      if (relu && !is_signed) continue;
      const OneInstruction i{op + (is_signed ? ".s16x2" : ".u16x2") + " %d, %a, %b;", "b32", {"b32", "b32"}};
      CAPTURE(i.text);
      test::hopper_module(test::ptx_of(i));
      std::vector<std::vector<U>> in(2);
      for (int n = 0; n < 1000; ++n)
        for (auto& operand : in)
          operand.push_back(word(random));
      const auto found = test::run(i, in);
      for (std::size_t n = 0; n < found.size(); ++n) {
        U expected = 0;
        for (int h = 0; h < 2; ++h) {
          const int x = element(in[0][n], h, 16, is_signed), y = element(in[1][n], h, 16, is_signed);
          int r = op == "add" ? x + y : op.substr(0, 3) == "min" ? std::min(x, y) : std::max(x, y);
          if (relu) r = std::max(r, 0);
          expected |= (static_cast<U>(r) & 0xffff) << (16 * h);
        }
        CAPTURE(in[0][n], in[1][n]);
        REQUIRE(found[n] == expected);
      }
    }
  for (const char* text : {"sub.s16x2", "add.sat.s16x2", "min.relu.u16x2", "mul.lo.u16x2"})
    refused(std::string(text) + " %d, %a, %b;", "does not exist for ");
}

TEST_CASE("packed halves under a guard leave other lanes as they are", "[emulator]") {
  const OneInstruction i{
      "mov.b32 %d, 5; setp.gt.u32 %q1, %a, 100; @%q1 add.u16x2 %d, %a, %b;", "b32", {"b32", "b32"}};
  const auto found = test::run(i, {{50, 150, 100, 101}, {0x10001, 0x10001, 1, 0xffff}});
  CHECK(found == std::vector<U>{5, 0x10097, 5, 100});
}
