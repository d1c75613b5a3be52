// Writes random PTX kernels whose results are fixed to the bit.
#include "random_instructions.h"

#include <initializer_list>
#include <random>

namespace kiln::test {

namespace {

constexpr const char* head =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    ".reg .b64 %in; .reg .b64 %out; .reg .b64 %at; .reg .b32 %thread; .reg .b32 %t<8>;\n"
    "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; cvta.to.global.u64 %in, %in; "
    "cvta.to.global.u64 %out, %out;\n"
    "mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; "
    "mad.lo.u32 %thread, %t0, %t1, %t2;\n";

class Writer {
public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}
  std::string kernel(int count) {
    text_ = head;
    text_ += ".reg .b16 %h<8>; .reg .b32 %r<12>; .reg .b64 %x<6>; .reg .pred %p<5>;\n"
             ".shared .align 8 .b8 shared[2048]; .local .align 8 .b8 local[64];\n"
             "mul.wide.u32 %at, %thread, 128; add.u64 %in, %in, %at; add.u64 %out, %out, %at;\n"
             "mov.u32 %t3, shared; and.b32 %t4, %t2, 127; shl.b32 %t4, %t4, 3; add.u32 %t4, %t4, %t3;\n"
             "mov.u64 %at, 0; st.shared.u64 [%t4], %at; st.shared.u64 [%t4+1024], %at;\n";
    for (int n = 0; n < 8; ++n)
      line("st.local.u64 [local+" + std::to_string(8 * n) + "], %at;");
    for (int n = 0; n < 12; ++n)
      line("ld.global.b32 %r" + std::to_string(n) + ", [%in+" + std::to_string(4 * n) + "];");
    for (int n = 0; n < 6; ++n)
      line("ld.global.b64 %x" + std::to_string(n) + ", [%in+" + std::to_string(48 + 8 * n) + "];");
    for (int n = 0; n < 8; ++n)
      line("ld.global.b16 %h" + std::to_string(n) + ", [%in+" + std::to_string(96 + 2 * n) + "];");
    for (int n = 0; n < 5; ++n)
      line("setp.lt.s32 %p" + std::to_string(n) + ", %r" + std::to_string(n) + ", 0;");
    for (int n = 0; n < count; ++n)
      statement();
    for (int n = 0; n < 12; ++n)
      line("st.global.b32 [%out+" + std::to_string(4 * n) + "], %r" + std::to_string(n) + ";");
    for (int n = 0; n < 6; ++n)
      line("st.global.b64 [%out+" + std::to_string(48 + 8 * n) + "], %x" + std::to_string(n) + ";");
    for (int n = 0; n < 8; ++n)
      line("st.global.b16 [%out+" + std::to_string(96 + 2 * n) + "], %h" + std::to_string(n) + ";");
    line("mov.u32 %t5, 0;");
    for (int n = 0; n < 5; ++n)
      line("@%p" + std::to_string(n) + " or.b32 %t5, %t5, " + std::to_string(1 << n) + ";");
    // Reads the shared words when all threads have finished with them.
    line(
        "bar.sync 0; ld.shared.v2.b32 {%t6, %t7}, [%t4]; st.global.v4.b32 [%out+112], {%t5, %t6, %t7, %t0};");
    return text_ + "ret;\n}\n";
  }

private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::string any(std::initializer_list<const char*> of) {
    return of.begin()[below(static_cast<int>(of.size()))];
  }
  std::string h() { return "%h" + std::to_string(below(8)); }
  std::string r() { return "%r" + std::to_string(below(12)); }
  std::string x() { return "%x" + std::to_string(below(6)); }
  std::string p() { return "%p" + std::to_string(below(5)); }
  std::string of_width(int width) { return width == 16 ? h() : width == 32 ? r() : x(); }
  void line(const std::string& s) { text_ += s + "\n"; }
  // Writes "op d, a, b, c;" for one width, sometimes with a guard.
  void simple(const std::string& op, int width, int sources, bool may_guard = true) {
    std::string s = may_guard && below(6) == 0 ? "@" + std::string(below(2) ? "!" : "") + p() + " " : "";
    s += op + " " + of_width(width);
    for (int n = 0; n < sources; ++n)
      s += ", " + of_width(width);
    line(s + ";");
  }
  void f64() {
    const int sources = 2 + below(2);
    const std::string d = x(), op = sources == 3 ? "fma" : any({"add", "sub", "mul", "div"});
    std::string s = op + "." + any({"rn", "rz", "rm", "rp"}) + ".f64 " + d;
    for (int n = 0; n < sources; ++n)
      s += ", " + x();
    line(s + ";");
    line("{ .reg .pred %nan; testp.notanumber.f64 %nan, " + d + "; @%nan mov.b64 " + d +
         ", 0x7ff8000000000000; }");
  }

  void statement() {
    switch (below(12)) {
    case 0: return integer();
    case 1: return bits();
    case 2: return f32();
    case 3: return f64();
    case 4: return halves();
    case 5: return conversion();
    case 6: return comparison();
    case 7: return warp();
    case 8: return memory();
    case 9: return branch();
    case 10: return integer();
    default: return f32();
    }
  }
  void integer() {
    const int width = below(3) == 0 ? 16 : below(2) ? 32 : 64;
    const std::string w = std::to_string(width), t = any({"s", "u"}) + w;
    switch (below(10)) {
    case 0: return simple(any({"add.", "sub."}) + t, width, 2);
    case 1: return simple(any({"mul.lo.", "mul.hi."}) + t, width, 2);
    case 2: return simple(any({"mad.lo.", "mad.hi."}) + t, width, 3);
    case 3: return simple(any({"min.", "max."}) + t, width, 2);
    case 4: // never by zero, for which PTX does not define the quotient
      line("{ .reg .b" + w + " %one; or.b" + w + " %one, " + of_width(width) + ", 1; " +
           any({"div.", "rem."}) + "u" + w + " " + of_width(width) + ", " + of_width(width) + ", %one; }");
      return;
    case 5: return simple(any({"abs.s", "neg.s"}) + w, width, 1);
    case 6: return simple(any({"add.sat.s32", "sub.sat.s32"}), 32, 2);
    case 7: return line("mul.wide." + any({"s32 ", "u32 "}) + x() + ", " + r() + ", " + r() + ";");
    case 8: return simple("sad." + any({"s32", "u32"}), 32, 3);
    default: return simple(any({"mul24.lo.s32", "mul24.hi.u32"}), 32, 2);
    }
  }
  void bits() {
    const int width = below(2) ? 32 : 64;
    const std::string w = std::to_string(width);
    switch (below(9)) {
    case 0: return simple(any({"and.b", "or.b", "xor.b"}) + w, width, 2);
    case 1: return simple(any({"not.b", "brev.b", "cnot.b"}) + w, width, 1);
    case 2:
      return line(any({"shl.b", "shr.u", "shr.s"}) + w + " " + of_width(width) + ", " + of_width(width) +
                  ", " + r() + ";");
    case 3:
      return line(any({"popc.b", "clz.b", "bfind.u", "bfind.s", "bfind.shiftamt.u"}) + w + " " + r() + ", " +
                  of_width(width) + ";");
    case 4:
      return line("prmt.b32" + any({"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"}) + " " + r() + ", " +
                  r() + ", " + r() + ", " + r() + ";");
    case 5:
      return line("lop3.b32 " + r() + ", " + r() + ", " + r() + ", " + r() + ", " +
                  std::to_string(below(256)) + ";");
    case 6:
      return line("shf." + any({"l", "r"}) + any({".wrap", ".clamp"}) + ".b32 " + r() + ", " + r() + ", " +
                  r() + ", " + r() + ";");
    case 7:
      return line("bfe." + any({"u", "s"}) + w + " " + of_width(width) + ", " + of_width(width) + ", " +
                  std::to_string(below(70)) + ", " + std::to_string(below(70)) + ";");
    default:
      return line("bfi.b" + w + " " + of_width(width) + ", " + of_width(width) + ", " + of_width(width) +
                  ", " + std::to_string(below(width)) + ", " + std::to_string(below(width)) + ";");
    }
  }
  void f32() {
    const std::string rounding = any({".rn", ".rz", ".rm", ".rp"}), flush = any({"", ".ftz"});
    switch (below(5)) {
    case 0: return simple(any({"add", "sub", "mul"}) + rounding + flush + any({"", ".sat"}) + ".f32", 32, 2);
    case 1: return simple("fma" + rounding + flush + any({"", ".sat"}) + ".f32", 32, 3);
    case 2: return simple("div" + rounding + flush + ".f32", 32, 2);
    case 3: return simple(any({"sqrt", "rcp"}) + rounding + flush + ".f32", 32, 1);
    default: return simple(any({"min", "max"}) + flush + any({"", ".NaN"}) + ".f32", 32, 2);
    }
  }
  void halves() {
    const std::string t = any({"f16", "bf16"});
    const bool pair = below(2);
    const std::string type = "." + t + (pair ? "x2" : "");
    const int width = pair ? 32 : 16;
    if (below(3) == 0) return simple(any({"min", "max"}) + any({"", ".NaN"}) + type, width, 2);
    if (t == "f16" && below(2))
      return simple(any({"add", "sub", "mul"}) + ".rn" + any({"", ".ftz"}) + any({"", ".sat"}) + type, width,
                    2);
    return simple("fma.rn" + any({"", ".relu"}) + type, width, 3);
  }
  void conversion() {
    const std::string f = any({".rn", ".rz", ".rm", ".rp"}), i = any({".rni", ".rzi", ".rmi", ".rpi"});
    switch (below(10)) {
    case 0: return line("cvt" + i + any({".s32", ".u32"}) + ".f32 " + r() + ", " + r() + ";");
    case 1: return line("cvt" + i + any({".s64", ".u64"}) + ".f32 " + x() + ", " + r() + ";");
    case 2: return line("cvt" + f + ".f32" + any({".s32 ", ".u32 "}) + r() + ", " + r() + ";");
    case 3: return line("cvt" + f + ".f32" + any({".s64 ", ".u64 "}) + r() + ", " + x() + ";");
    case 4: return line("cvt" + f + ".f32.f64 " + r() + ", " + x() + ";");
    case 5:
      return line("cvt" + any({".rn", ".rz"}) + any({".f16.f32 ", ".bf16.f32 "}) + h() + ", " + r() + ";");
    case 6:
      return line("cvt" + any({".rn", ".rz"}) + any({"", ".relu"}) + any({".f16x2.f32 ", ".bf16x2.f32 "}) +
                  r() + ", " + r() + ", " + r() + ";");
    case 7: return line("cvt.f32.f16 " + r() + ", " + h() + ";");
    case 8: return line("cvt.sat." + any({"s16.s32 ", "u16.u32 ", "u16.s32 "}) + h() + ", " + r() + ";");
    default: return line("cvt." + any({"s64.s32 ", "u64.u32 "}) + x() + ", " + r() + ";");
    }
  }
  void comparison() {
    switch (below(4)) {
    case 0:
      return line("setp." + any({"eq", "ne", "lt", "le", "gt", "ge"}) + any({".s32 ", ".u32 "}) + p() + ", " +
                  r() + ", " + r() + ";");
    case 1:
      return line("setp." + any({"eq", "lt", "ge", "equ", "neu", "ltu", "gtu", "num", "nan"}) + ".f32 " +
                  p() + ", " + r() + ", " + r() + ";");
    case 2: return line("selp.b64 " + x() + ", " + x() + ", " + x() + ", " + p() + ";");
    default:
      return line("set." + any({"lt", "gt", "eq"}) + ".u32.f32 " + r() + ", " + r() + ", " + r() + ";");
    }
  }
  void warp() { // needs all lanes, so not inside a branch
    switch (below(4)) {
    case 0:
      return line("shfl.sync." + any({"up", "down", "bfly", "idx"}) + ".b32 " + r() + "|" + p() + ", " + r() +
                  ", " + std::to_string(below(32)) + ", " + any({"0", "31", "0x181f", "0x1c1f"}) + ", -1;");
    case 1: return line("vote.sync.ballot.b32 " + r() + ", " + p() + ", -1;");
    case 2: return line("match.any.sync.b32 " + r() + ", " + r() + ", -1;");
    default:
      return line("redux.sync." + any({"add.s32 ", "min.u32 ", "max.s32 ", "xor.b32 ", "and.b32 "}) + r() +
                  ", " + r() + ", -1;");
    }
  }
  void memory() {
    const std::string slot = "[local+" + std::to_string(8 * below(8)) + "]";
    switch (below(4)) {
    case 0: return line("st.local." + any({"u8 ", "u16 ", "u32 "}) + slot + ", " + r() + ";");
    case 1: return line("ld.local." + any({"s8 ", "u8 ", "s16 ", "u16 ", "u32 "}) + r() + ", " + slot + ";");
    case 2:
      return line("atom.shared." + any({"add.u32 ", "max.s32 ", "xor.b32 ", "exch.b32 "}) + r() +
                  ", [%t4], " + r() + ";");
    default: // reads the neighbour's word; the second barrier prevents that it is overwritten early
      return line("st.shared.b32 [%t4+1024], " + r() + "; bar.sync 0; xor.b32 %t5, %t4, 8; ld.shared.b32 " +
                  r() + ", [%t5+1024]; bar.sync 0;");
    }
  }
  void branch() {
    const std::string label = "L" + std::to_string(labels_++);
    line("@" + p() + " bra " + label + ";");
    for (int n = 1 + below(4); n > 0; --n)
      switch (below(3)) {
      case 0: integer(); break;
      case 1: bits(); break;
      default: f32();
      }
    line(label + ":");
  }

  std::mt19937_64 random_;
  std::string text_;
  int labels_ = 0;
};

} // namespace

std::string random_instructions(std::uint64_t seed, int count) { return Writer(seed).kernel(count); }

std::string one_approximation(const std::string& text) {
  return head +
         std::string("mul.wide.u32 %at, %thread, 4; add.u64 %in, %in, %at; add.u64 %out, %out, %at;\n"
                     ".reg .b32 %a; .reg .b32 %d; ld.global.b32 %a, [%in];\n") +
         text + "\nst.global.b32 [%out], %d; ret;\n}\n";
}

} // namespace kiln::test
