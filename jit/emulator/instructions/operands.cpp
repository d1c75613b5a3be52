// Decodes operands: registers and their offsets in a frame, constants, addresses, special registers.
#include "decoder.h"
#include <kiln/jit/emulator/core/special_registers.h>
#include <kiln/jit/emulator/core/warp.h>
#include <kiln/jit/emulator/ptx/expression.h>

#include <algorithm>

namespace kiln::emulator {
namespace {

constexpr std::uint32_t most_register_bytes = 64u << 20;

void negate_predicate(Warp& w, const Instruction& i, Mask m) {
  w.pred(i.d) = (w.pred(i.d) & ~m) | (~w.pred(i.a) & m);
}

} // namespace

const Operand& Decoder::operand(std::size_t n) const {
  if (n >= statement_->operands.size()) fail(quoted(statement_->opcode) + " lacks an operand");
  return statement_->operands[n];
}

void Decoder::expect_operands(std::size_t least, std::size_t most) {
  if (operands() < least || operands() > most)
    fail(quoted(statement_->opcode) + " has " + std::to_string(operands()) + " operands, and takes " +
         std::to_string(least) + (most > least ? " to " + std::to_string(most) : ""));
}

std::vector<const Operand*> Decoder::vector(const Operand& o, std::size_t size) const {
  std::vector<const Operand*> parts;
  if (o.kind == Operand::Kind::Vector)
    for (const Operand& part : o.parts)
      parts.push_back(&part);
  else
    parts.push_back(&o);
  if (parts.size() != size)
    fail(quoted(statement_->opcode) + " has a vector of " + std::to_string(parts.size()) +
         " where it takes one of " + std::to_string(size));
  return parts;
}

std::optional<Decoder::Found> Decoder::find_register(std::string_view name) {
  const auto scope_of = [&](int n) -> const ptx::Scope& {
    return source_.scopes[static_cast<std::size_t>(n)];
  };
  for (int n = statement_->scope; n >= 0; n = scope_of(n).parent) {
    const ptx::Scope& scope = scope_of(n);
    if (auto at = scope.registers.find(name); at != scope.registers.end()) {
      const ptx::Register& r = source_.registers[at->second];
      std::uint32_t& place = registers_[at->second];
      if (place == no_register) place = place_register(bits_of(r.type));
      return Found{place, r.type};
    }
    if (scope.ranges.empty()) continue;
    // %r12 is a prefix and a number; the number may start at any of the trailing digits
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
      --digits;
    for (std::size_t cut = digits; cut < name.size() && name.size() - cut <= 10; ++cut) {
      auto at = scope.ranges.find(name.substr(0, cut));
      if (at == scope.ranges.end()) continue;
      const std::string_view number = name.substr(cut);
      if (number.size() > 1 && number[0] == '0') continue;
      std::uint64_t value = 0;
      for (char c : number)
        value = value * 10 + static_cast<std::uint64_t>(c - '0');
      const ptx::RegisterRange& range = source_.ranges[at->second];
      if (value >= range.count) continue;
      auto [place, fresh] =
          range_registers_.try_emplace(static_cast<std::uint64_t>(at->second) << 32 | value, 0);
      if (fresh) place->second = place_register(bits_of(range.type));
      return Found{place->second, range.type};
    }
  }
  return std::nullopt;
}

std::uint32_t Decoder::place_register(int bits) {
  const std::uint32_t bytes = bits == 1 ? 4u : std::max(bits, 16) / 8u * warp_size;
  // predicates in between would misalign vectors
  std::uint32_t at = bits == 1 ? to_.register_bytes : (to_.register_bytes + 63) / 64 * 64;
  if (at > most_register_bytes) fail("the function uses more registers than the emulator has room for");
  to_.register_bytes = at + bytes;
  return at;
}

std::uint32_t Decoder::temporary(int bits) { return place_register(bits); }

std::uint32_t Decoder::constant(std::uint64_t value, int bits, bool local) {
  if (bits == 8) bits = 16;
  if (bits < 64) value &= (std::uint64_t(1) << bits) - 1;
  auto& known = constants_[local ? 4 : bits == 1 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
  auto [at, fresh] = known.try_emplace(value, 0);
  if (fresh) {
    at->second = place_register(bits);
    to_.constants.push_back({at->second, bits, value, local, false});
  }
  return at->second;
}

bool Decoder::is_register(const Operand& o) const { return width(o) != 0; }

int Decoder::width(const Operand& o) const {
  if (o.kind != Operand::Kind::Name) return 0;
  auto found = const_cast<Decoder*>(this)->find_register(o.name);
  return found ? std::max(bits_of(found->type), found->type == Type::Pred ? 1 : 16) : 0;
}

std::optional<std::int64_t> Decoder::immediate(const Operand& o) const {
  if (o.kind == Operand::Kind::Integer) return static_cast<std::int64_t>(o.bits);
  if (o.kind == Operand::Kind::Name && o.name == "WARP_SZ") return warp_size;
  return std::nullopt;
}

const ptx::Variable* Decoder::find_variable(std::string_view name) const {
  const auto scope_of = [&](int n) -> const ptx::Scope& {
    return source_.scopes[static_cast<std::size_t>(n)];
  };
  for (int n = statement_->scope; n >= 0; n = scope_of(n).parent)
    if (auto at = scope_of(n).variables.find(name); at != scope_of(n).variables.end())
      return &source_.variables[at->second];
  for (const auto* list : {&source_.params, &source_.returns})
    for (const ptx::Variable& v : *list)
      if (v.name == name) return &v;
  auto at = builder_.module.variable_named.find(name);
  return at == builder_.module.variable_named.end() ? nullptr : &builder_.module.variables[at->second];
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> Decoder::param_place(std::string_view name) const {
  const ptx::Variable* v = find_variable(name);
  if (!v || v->space != Space::Param) return std::nullopt;
  auto at = params_.find(v);
  if (at == params_.end()) return std::nullopt;
  return std::pair{at->second, v->bytes};
}

std::optional<Address> Decoder::symbol(const Operand& o) {
  if (const ptx::Variable* v = find_variable(o.name)) {
    Address a;
    a.offset = o.offset;
    a.space = v->space;
    switch (v->space) {
    case Space::Global:
    case Space::Const: {
      const Region* r = builder_.variable(v->name);
      if (!r) fail("the variable " + quoted(o.name) + " is external and not defined in this module");
      a.reg = constant(r->base, 64);
      return a;
    }
    case Space::Shared:
      if (v->external) {
        builder_.dynamic_align = std::max(builder_.dynamic_align, v->align);
        if (dynamic_ == no_register) { // filled in when all static variables have their offsets
          dynamic_ = place_register(64);
          to_.constants.push_back({dynamic_, 64, 0, false, true});
        }
        a.reg = dynamic_;
        return a;
      }
      a.reg = constant(builder_.shared_offset(*v), 64);
      return a;
    case Space::Local: a.reg = constant(local_.at(v), 64, true); return a;
    case Space::Param: {
      const bool kernels =
          source_.entry && v >= source_.params.data() && v < source_.params.data() + source_.params.size();
      a.reg = constant(params_.at(v) + (kernels ? 0 : frame_params), 64);
      return a;
    }
    default: break;
    }
  }
  auto f = builder_.module.function_named.find(o.name);
  if (f == builder_.module.function_named.end()) return std::nullopt;
  builder_.addressed.push_back(f->first);
  Address a;
  a.offset = o.offset;
  a.reg = constant(code_window + f->second, 64);
  return a;
}

// mov of the address of a parameter of a function (not of a kernel), which calls then copy to local memory.
std::optional<Address> Decoder::parameter_address(const Operand& o) {
  const ptx::Variable* v = find_variable(o.name);
  if (source_.entry || !v || v < source_.params.data() || v >= source_.params.data() + source_.params.size())
    return std::nullopt;
  auto [at, fresh] = local_.try_emplace(v, 0);
  if (fresh) {
    const std::uint64_t align = std::min<std::uint64_t>(v->align, 32);
    at->second = (to_.local_bytes + align - 1) / align * align;
    to_.local_bytes = at->second + v->bytes;
    to_.stack_copies.push_back({params_.at(v), at->second, v->bytes});
  }
  Address a;
  a.offset = o.offset;
  a.space = Space::Local;
  a.reg = constant(at->second, 64, true);
  return a;
}

std::optional<std::uint32_t> Decoder::special(std::string_view name, int& bits) {
  const SpecialRegister* s = special_register(name);
  if (!s) return std::nullopt;
  bits = s->bits;
  if (name.substr(0, 14) == "%reserved_smem") builder_.program.uses_reserved = true;
  if (name == "%envreg1" || name == "%envreg2") builder_.program.cooperative = true;
  Instruction i;
  i.run = s->read;
  i.mode = s->mode;
  i.kind = InstructionClass::Move;
  i.d = temporary(s->bits);
  i.line = statement_->line;
  i.location = statement_->location;
  emit_hidden(i);
  return i.d;
}

std::uint32_t Decoder::source(const Operand& o, Type type, bool exact) {
  const int bits = std::max(bits_of(type), type == Type::Pred ? 1 : 16);
  switch (o.kind) {
  case Operand::Kind::Integer:
    if (bits > 64) fail("a constant of 128 bits does not exist");
    return constant(o.bits, bits);
  case Operand::Kind::Float32:
  case Operand::Kind::Float64:
    if (bits != 32 && bits != 64)
      fail("a float of 32 or 64 bits where " + quoted(statement_->opcode) + " takes " + std::to_string(bits));
    return constant(ptx::float_constant(o.kind == Operand::Kind::Float32, o.bits, bits), bits);
  case Operand::Kind::Name: break;
  default: fail(quoted(statement_->opcode) + " takes a register or a constant where it has something else");
  }
  if (auto r = find_register(o.name)) {
    const int have = r->type == Type::Pred ? 1 : std::max(bits_of(r->type), 16);
    if (have == bits || (!exact && have > bits && bits > 1)) {
      if (o.offset) fail("a register plus a number is an operand of addresses only");
      if (to_.uses_wgmma && have == 32) touched_.push_back({0, r->at, false, std::string(o.name)});
      if (have > 1) uses_.push_back({r->at, false});
      return r->at;
    }
    fail("the register " + std::string(o.name) + " has " + std::to_string(have) + " bits, and " +
         quoted(statement_->opcode) + " takes " + std::to_string(bits));
  }
  if (o.name == "WARP_SZ") return constant(warp_size, bits);
  int have = 0;
  if (auto r = special(o.name, have)) {
    if (have == bits || (!exact && have > bits)) return *r;
    Instruction i; // mov.u16 and mov.u64 of a 32-bit special register
    i.run = bits == 64 ? widen_special : bits == 16 ? narrow_special : nullptr;
    if (!i.run || have != 32)
      fail("the special register " + std::string(o.name) + " has " + std::to_string(have) + " bits");
    i.kind = InstructionClass::Move;
    i.a = *r;
    i.d = temporary(bits);
    i.line = statement_->line;
    emit_hidden(i);
    return i.d;
  }
  auto a = parameter_address(o);
  if (!a) a = symbol(o);
  if (a) {
    if (bits != 64 && bits != 32) fail("an address has 32 or 64 bits");
    Instruction i;
    i.run = bits == 64 ? add_offset64 : add_offset32;
    i.kind = InstructionClass::Move;
    i.a = a->reg;
    i.offset = a->offset;
    if (bits == 64 && a->offset == 0) return a->reg;
    i.d = temporary(bits);
    i.line = statement_->line;
    emit_hidden(i);
    return i.d;
  }
  fail("the name " + quoted(o.name) + " is not declared");
}

std::uint32_t Decoder::destination(const Operand& o, int bits, bool exact) {
  bits = bits == 8 ? 16 : bits;
  if (o.kind == Operand::Kind::Sink) return temporary(bits);
  if (o.kind != Operand::Kind::Name || o.offset || o.negated)
    fail(quoted(statement_->opcode) + " must write to a register");
  auto r = find_register(o.name);
  if (!r) fail("the register " + quoted(o.name) + " is not declared");
  const int have = r->type == Type::Pred ? 1 : std::max(bits_of(r->type), 16);
  if (have != bits && (exact || have < bits || bits == 1))
    fail("the register " + std::string(o.name) + " has " + std::to_string(have) + " bits, and " +
         quoted(statement_->opcode) + " writes " + std::to_string(bits));
  if (to_.uses_wgmma && have == 32) touched_.push_back({0, r->at, true, std::string(o.name)});
  if (have > 1) uses_.push_back({r->at, true});
  return r->at;
}

std::uint32_t Decoder::predicate(const Operand& o) {
  const std::uint32_t at = source(o, Type::Pred);
  if (!o.negated) return at;
  Instruction i;
  i.run = negate_predicate;
  i.kind = InstructionClass::Other;
  i.a = at;
  i.d = temporary(1);
  i.line = statement_->line;
  emit_hidden(i);
  return i.d;
}

Address Decoder::address(const Operand& o) {
  if (o.kind != Operand::Kind::Address || o.parts.empty())
    fail(quoted(statement_->opcode) + " takes an address in brackets");
  const Operand& base = o.parts.front();
  Address a;
  if (base.kind == Operand::Kind::Integer) {
    a.reg = constant(base.bits, 64);
    return a;
  }
  if (base.kind != Operand::Kind::Name) fail("an address is a register or a variable, and a number");
  if (auto r = find_register(base.name)) {
    a.width = bits_of(r->type);
    if (a.width != 32 && a.width != 64)
      fail("the register " + std::string(base.name) + " of an address has " + std::to_string(a.width) +
           " bits");
    a.reg = r->at;
    a.offset = base.offset;
    uses_.push_back({r->at, false});
    return a;
  }
  if (auto s = symbol(base)) return *s;
  fail("the name " + quoted(base.name) + " is not declared");
}

} // namespace kiln::emulator
