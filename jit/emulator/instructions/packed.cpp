// Decodes and executes arithmetic on halves and bytes: .s16x2, .u16x2 and SIMD video (vadd2, vabsdiff4).
//
// A video instruction chooses its elements among those of a and b by selectors (%r1.h13, %r2.b7654) and
// computes in integers that do not overflow. The elements of its mask replace those of c, or are added to c.
#include "decoder.h"
#include <kiln/jit/emulator/core/warp.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace kiln::emulator {
namespace {

enum class PackedOp : std::uint8_t { Add, Sub, Average, AbsoluteDifference, Min, Max, Set };

// --- Halves

template <class T, PackedOp op, bool relu> void halves(Warp& w, const Instruction& i, Mask m) {
  const T *a = w.reg<T>(i.a), *b = w.reg<T>(i.b);
  T r[2 * warp_size];
  for (int n = 0; n < 2 * warp_size; ++n) {
    r[n] = op == PackedOp::Add   ? static_cast<T>(a[n] + b[n])
           : op == PackedOp::Min ? std::min(a[n], b[n])
                                 : std::max(a[n], b[n]);
    if (relu) r[n] = std::max(r[n], T(0));
  }
  T* d = w.reg<T>(i.d);
  for (int n = 0; n < 2 * warp_size; ++n)
    d[n] = m >> (n / 2) & 1 ? r[n] : d[n];
}

// --- SIMD video

// A video instruction, stored in Function::extras.
struct Video {
  std::uint32_t op, compare, elements, a_signed, b_signed, d_signed, saturates, accumulates;
  std::uint32_t mask, a, b; // mask of the elements of d; selectors with 4 bits for each element
};
constexpr std::size_t video_words = sizeof(Video) / 4;
constexpr std::string_view comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};

std::int32_t computed(const Video& v, std::int32_t x, std::int32_t y) {
  switch (static_cast<PackedOp>(v.op)) {
  case PackedOp::Add: return x + y;
  case PackedOp::Sub: return x - y;
  case PackedOp::Average: return (x + y + (x + y >= 0)) >> 1;
  case PackedOp::AbsoluteDifference: return std::abs(x - y);
  case PackedOp::Min: return std::min(x, y);
  case PackedOp::Max: return std::max(x, y);
  case PackedOp::Set: break;
  }
  const bool results[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
  return results[v.compare];
}

void video(Warp& w, const Instruction& i, Mask m) {
  Video v;
  std::copy_n(w.extras(i), video_words, reinterpret_cast<std::uint32_t*>(&v));
  const std::uint32_t bits = 32 / v.elements, ones = (std::uint32_t(1) << bits) - 1;
  const std::int32_t least = v.d_signed ? -(1 << (bits - 1)) : 0,
                     most = static_cast<std::int32_t>(ones) + least;
  for (; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t both =
        std::uint64_t(w.reg<std::uint32_t>(i.b)[l]) << 32 | w.reg<std::uint32_t>(i.a)[l];
    std::uint32_t d = w.reg<std::uint32_t>(i.c)[l];
    auto element = [&](std::uint32_t selectors, std::uint32_t n, bool is_signed) {
      const auto x = static_cast<std::uint32_t>(both >> ((selectors >> 4 * n & 15) * bits)) << (32 - bits);
      return is_signed ? static_cast<std::int32_t>(x) >> (32 - bits)
                       : static_cast<std::int32_t>(x >> (32 - bits));
    };
    for (std::uint32_t n = 0; n < v.elements; ++n) {
      if (!(v.mask >> n & 1)) continue;
      std::int32_t t = computed(v, element(v.a, n, v.a_signed), element(v.b, n, v.b_signed));
      if (v.saturates) t = std::clamp(t, least, most);
      const auto u = static_cast<std::uint32_t>(t);
      d = v.accumulates ? d + u : (d & ~(ones << n * bits)) | (u & ones) << n * bits;
    }
    w.reg<std::uint32_t>(i.d)[l] = d;
  }
}

// Splits %r1.h10 into its register and digits, lowest first. Without a selector there are no digits.
Operand selected(Decoder& d, std::size_t n, std::uint32_t elements, std::vector<std::uint32_t>& digits) {
  Operand o = d.operand(n);
  const std::size_t dot = o.kind == Operand::Kind::Name ? o.name.rfind('.') : o.name.npos;
  if (dot == o.name.npos) return o;
  const std::string_view text = o.name.substr(dot + 1);
  o.name = o.name.substr(0, dot);
  for (std::size_t k = text.size(); k-- > 1;)
    digits.push_back(static_cast<std::uint32_t>(text[k] - '0'));
  const bool known = text[0] == (elements == 2 ? 'h' : 'b') && !digits.empty();
  if (!known || *std::max_element(digits.begin(), digits.end()) >= (n ? 2 * elements : elements))
    d.fail(quoted(d.statement().opcode) + " has the selector ." + std::string(text) +
           ", which does not exist there");
  return o;
}

void decode_video(Decoder& d) {
  Video v{};
  static constexpr std::string_view names[] = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"};
  const std::string_view root = d.root();
  v.op =
      static_cast<std::uint32_t>(std::find(names, std::end(names), root.substr(0, root.size() - 1)) - names);
  v.elements = static_cast<std::uint32_t>(root.back() - '0');
  auto is_signed = [&] {
    const Type t = d.take_type();
    if (t != Type::U32 && t != Type::S32) d.fail(quoted(d.statement().opcode) + " takes .u32 and .s32 only");
    return t == Type::S32;
  };
  if (v.op != static_cast<std::uint32_t>(PackedOp::Set)) {
    v.d_signed = is_signed();
    v.saturates = d.take("sat");
  }
  v.a_signed = is_signed();
  v.b_signed = is_signed();
  v.accumulates = d.take("add");
  if (v.op == static_cast<std::uint32_t>(PackedOp::Set)) {
    while (v.compare < std::size(comparisons) && !d.take(comparisons[v.compare]))
      ++v.compare;
    if (v.compare == std::size(comparisons))
      d.fail(quoted(d.statement().opcode) + " takes .eq, .ne, .lt, .le, .gt or .ge");
  }
  if (v.saturates && v.accumulates) d.fail(quoted(d.statement().opcode) + " is .sat or .add, not both");
  d.expect_operands(4);
  std::vector<std::uint32_t> mask, a, b;
  Instruction i = d.plain(video);
  i.a = d.source(selected(d, 1, v.elements, a), Type::B32);
  i.b = d.source(selected(d, 2, v.elements, b), Type::B32);
  i.c = d.source(3, Type::B32);
  i.d = d.destination(selected(d, 0, v.elements, mask), 32);
  if ((!a.empty() && a.size() != v.elements) || (!b.empty() && b.size() != v.elements))
    d.fail(quoted(d.statement().opcode) + " takes selectors of " + std::to_string(v.elements) + " elements");
  for (std::uint32_t n = 0; n < v.elements; ++n) {
    v.a |= (a.empty() ? n : a[n]) << 4 * n;
    v.b |= (b.empty() ? v.elements + n : b[n]) << 4 * n;
    if (mask.empty()) v.mask |= 1u << n;
  }
  for (std::uint32_t n : mask)
    v.mask |= 1u << n;
  i.extra = d.extras({reinterpret_cast<const std::uint32_t*>(&v), video_words});
  d.emit(i);
}

#define BOTH(name)                                                                                           \
  {name "2", InstructionClass::Integer, decode_video}, { name "4", InstructionClass::Integer, decode_video }
constexpr Opcode video_table[] = {BOTH("vadd"), BOTH("vsub"), BOTH("vavrg"), BOTH("vabsdiff"),
                                  BOTH("vmin"), BOTH("vmax"), BOTH("vset")};

} // namespace

std::span<const Opcode> video_opcodes() { return video_table; }

Handler packed_halves(std::string_view root, Type t, bool relu) {
  using S = std::int16_t;
  using U = std::uint16_t;
  const bool s = t == Type::S16x2;
  if (relu && !s) return nullptr;
  if (root == "add") return relu ? nullptr : halves<U, PackedOp::Add, false>;
  if (root == "min")
    return relu ? halves<S, PackedOp::Min, true>
           : s  ? halves<S, PackedOp::Min, false>
                : halves<U, PackedOp::Min, false>;
  if (root == "max")
    return relu ? halves<S, PackedOp::Max, true>
           : s  ? halves<S, PackedOp::Max, false>
                : halves<U, PackedOp::Max, false>;
  return nullptr;
}

} // namespace kiln::emulator
