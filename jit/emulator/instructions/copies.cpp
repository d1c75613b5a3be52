// Classifies instructions that only move bits, and finds loads of adjacent bytes.
#include "copies.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace kiln::emulator {
namespace {

using ptx::Operand;
using ptx::Statement;
using ptx::Type;

struct MovingOpcode {
  std::string_view root;
  std::vector<std::string_view> modifiers; // without types
  std::vector<Type> types;

  explicit MovingOpcode(std::string_view text) {
    root = text.substr(0, text.find('.'));
    for (std::size_t dot = text.find('.'); dot != text.npos; dot = text.find('.')) {
      text.remove_prefix(dot + 1);
      const std::string_view word = text.substr(0, text.find('.'));
      if (const Type t = ptx::type_named(word); t != Type::None)
        types.push_back(t);
      else
        modifiers.push_back(word);
    }
  }
  bool has(std::string_view m) const {
    return std::find(modifiers.begin(), modifiers.end(), m) != modifiers.end();
  }
};

struct Known {
  std::string_view root;
  Copies how;
};
constexpr std::array known = {
    Known{"ld", Copies::Load},       Known{"ldu", Copies::Load},       Known{"st", Copies::Store},
    Known{"mov", Copies::Move},      Known{"not", Copies::Move},       Known{"cvt", Copies::Extend},
    Known{"shl", Copies::ShiftLeft}, Known{"shr", Copies::ShiftRight}, Known{"bfe", Copies::Extract},
    Known{"selp", Copies::Select},   Known{"and", Copies::And},        Known{"or", Copies::Or},
    Known{"xor", Copies::Xor},       Known{"prmt", Copies::Permute},   Known{"bfi", Copies::Insert},
    Known{"lop3", Copies::Lop3},     Known{"shf", Copies::FunnelLeft}, Known{"shfl", Copies::Shuffle},
};

std::uint8_t width(Type t) { return static_cast<std::uint8_t>(std::max(bits_of(t), 16)); }

// An address as an offset from a register, or from the constant of a variable.
struct Base {
  std::uint32_t reg;
  std::int64_t offset;
};

class Neighbours {
public:
  Neighbours(const ptx::Function& source, const std::vector<std::uint32_t>& first, Function& to)
      : source_(source), first_(first), to_(to) {}

  void run() {
    find_sums();
    std::vector<bool> leads(source_.body.size() + 1);
    for (const ptx::Scope& s : source_.scopes)
      for (const auto& [name, at] : s.labels)
        leads[at] = true;
    for (std::size_t n = 0; n < source_.body.size(); ++n) {
      if (leads[n]) close();
      const std::string_view root = root_of(n);
      if (root == "bra" || root == "brx" || root == "ret" || root == "exit") close();
      if (first_[n] == first_[n + 1]) continue;
      const std::uint32_t at = first_[n + 1] - 1;
      if (to_.copying[at].how != Copies::Load) continue;
      const Instruction& i = to_.code[at];
      const Base b = base({i.a, i.offset});
      const auto bytes = static_cast<std::int64_t>(bits_of(i.type) / 8) * i.count;
      loads_[{b.reg, i.space}].push_back({b.offset, b.offset + bytes, at});
    }
    close();
  }

private:
  struct Load {
    std::int64_t begin, end;
    std::uint32_t at;
  };

  std::string_view root_of(std::size_t n) const {
    const std::string_view opcode = source_.body[n].opcode;
    return opcode.substr(0, opcode.find('.'));
  }

  // Finds registers whose only value is another register plus a constant.
  void find_sums() {
    std::unordered_map<std::uint32_t, int> writes;
    for (const OperandUse& u : to_.uses)
      if (u.writes) ++writes[u.reg];
    for (std::size_t n = 0; n < source_.body.size(); ++n) {
      const Statement& s = source_.body[n];
      if (first_[n] == first_[n + 1] || !s.guard.empty()) continue;
      const Instruction& i = to_.code[first_[n + 1] - 1];
      const std::string_view root = root_of(n);
      if (root == "add" && s.operands.size() == 3 && s.operands[2].kind == Operand::Kind::Integer &&
          s.operands[1].kind == Operand::Kind::Name && writes[i.d] == 1)
        sums_[i.d] = {i.a, static_cast<std::int64_t>(s.operands[2].bits)};
      else if (root == "mov" && s.operands.size() == 2 && s.operands[0].kind == Operand::Kind::Name &&
               s.operands[1].kind == Operand::Kind::Name && writes[i.d] == 1 && writes[i.a] == 1)
        sums_[i.d] = {i.a, 0};
    }
  }
  Base base(Base b) const {
    for (int steps = 0; steps < 8; ++steps) {
      const auto sum = sums_.find(b.reg);
      if (sum == sums_.end()) break;
      b = {sum->second.reg, b.offset + sum->second.offset};
    }
    return b;
  }

  // Called at the end of a basic block.
  void close() {
    for (auto& [key, loads] : loads_) {
      std::sort(loads.begin(), loads.end(), [](const Load& a, const Load& b) { return a.begin < b.begin; });
      for (std::size_t k = 0; k < loads.size();) {
        std::size_t n = k + 1;
        std::int64_t end = loads[k].end;
        for (; n < loads.size() && loads[n].begin <= end; ++n)
          end = std::max(end, loads[n].end);
        for (std::size_t j = k; j < n; ++j) {
          Copying& c = to_.copying[loads[j].at];
          c.before = static_cast<std::uint8_t>(std::min<std::int64_t>(loads[j].begin - loads[k].begin, 15));
          c.after = static_cast<std::uint8_t>(std::min<std::int64_t>(end - loads[j].end, 15));
        }
        k = n;
      }
    }
    loads_.clear();
  }

  const ptx::Function& source_;
  const std::vector<std::uint32_t>& first_;
  Function& to_;
  std::unordered_map<std::uint32_t, Base> sums_;
  std::map<std::pair<std::uint32_t, ptx::Space>, std::vector<Load>> loads_;
};

} // namespace

Copying copying_of(const Statement& s) {
  Copying c;
  const MovingOpcode o(s.opcode);
  const auto at = std::find_if(known.begin(), known.end(), [&](const Known& k) { return k.root == o.root; });
  if (at == known.end() || o.types.empty()) return c;
  const Type t = o.types.front();
  if (t == Type::Pred) return c;
  c.bits = width(t);
  c.extends = ptx::is_signed(t);
  Copies how = at->how;
  switch (how) {
  case Copies::Store:
    if (o.has("async")) return c;
    break;
  case Copies::Move:
    if (o.root == "mov" && s.operands.size() == 2) {
      if (s.operands[1].kind == Operand::Kind::Vector) how = Copies::Pack;
      if (s.operands[0].kind == Operand::Kind::Vector) how = Copies::Unpack;
      if (how != Copies::Move) c.bits = static_cast<std::uint8_t>(bits_of(t));
    }
    break;
  case Copies::Extend:
    if (o.types.size() != 2 || !o.modifiers.empty() || ptx::is_float(t) || ptx::is_float(o.types[1]))
      return c;
    c.bits = 64; // marks above the width of the register have no effect
    c.to_bits = static_cast<std::uint8_t>(bits_of(t));
    c.from_bits = static_cast<std::uint8_t>(bits_of(o.types[1]));
    c.extends_source = ptx::is_signed(o.types[1]);
    break;
  case Copies::Permute:
  case Copies::Lop3:
    if (!o.modifiers.empty()) return c;
    break;
  case Copies::FunnelLeft:
    if (o.has("r")) how = Copies::FunnelRight;
    c.extends = o.has("clamp");
    break;
  default: break;
  }
  c.how = how;
  return c;
}

void follow_copies(const ptx::Function& source, const std::vector<std::uint32_t>& first, Function& to) {
  std::vector<bool> read(to.register_bytes / 64 + 1);
  for (const OperandUse& u : to.uses)
    if (!u.writes) read[u.reg / 64] = true;
  bool any = false;
  for (std::size_t n = 0; n < to.code.size(); ++n) {
    if (to.copying[n].how != Copies::Load) continue;
    Instruction& i = to.code[n];
    i.tracks_unwritten = any = true;
    bool used = i.space == ptx::Space::Param; // results of calls, which programs may ignore
    for (std::uint32_t k = 0; k < i.count; ++k)
      used |= read[to.extras[i.extra + k] / 64];
    to.copying[n].read = used;
  }
  if (any) Neighbours(source, first, to).run();
}

} // namespace kiln::emulator
