// Decodes the statements of one function.
#include "decoder.h"
#include "speculation.h"

#include "../ptx/expression.h"
#include "../special_registers.h"
#include "../warp.h"

#include <algorithm>
#include <kiln/dsl/error.h>

namespace kiln::emulator {
namespace {

constexpr std::uint32_t most_register_bytes = 64u << 20;
constexpr std::uint64_t most_local_bytes = 512 << 10;

std::string quoted(std::string_view s) { return "'" + std::string(s.substr(0, 80)) + "'"; }

const std::unordered_map<std::string_view, const Opcode*>& opcodes() {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Opcode*> all;
    for (auto family : {arithmetic_opcodes(), video_opcodes(), bit_opcodes(), comparison_opcodes(),
                        conversion_opcodes(), move_opcodes(), memory_opcodes(), atomic_opcodes(),
                        control_opcodes(), call_opcodes(), stack_opcodes(), warp_opcodes(), matrix_opcodes(),
                        asynchronous_opcodes(), mbarrier_opcodes(), tensor_map_opcodes(), wgmma_opcodes()})
      for (const Opcode& o : family)
        all.emplace(o.name, &o);
    return all;
  }();
  return table;
}

void negate_predicate(Warp& w, const Instruction& i, Mask m);

} // namespace

std::uint64_t ProgramBuilder::shared_offset(const ptx::Variable& v) {
  auto [at, fresh] = shared.try_emplace(&v, 0);
  if (fresh) {
    shared_bytes = (shared_bytes + v.align - 1) / v.align * v.align;
    at->second = shared_bytes;
    shared_bytes += v.bytes;
  }
  return at->second;
}

std::uint32_t ProgramBuilder::function(std::string_view name) {
  auto [at, fresh] = functions.try_emplace(name, static_cast<std::uint32_t>(to_decode.size()));
  if (fresh) to_decode.push_back(name);
  return at->second;
}

void ProgramBuilder::functions_by_address() {
  for (const ptx::Variable& v : module.variables)
    for (const ptx::Relocation& r : v.relocations)
      addressed.push_back(r.symbol);
  for (std::string_view name : addressed) {
    auto at = module.function_named.find(name);
    if (at == module.function_named.end()) continue;
    const ptx::Function& f = module.functions[at->second];
    if (f.defined && !f.entry) program.by_address[at->second] = function(name);
  }
  addressed.clear();
}

Decoder::Decoder(ProgramBuilder& builder, const ptx::Function& source, Function& to)
    : builder_(builder), source_(source), to_(to) {
  registers_.assign(source.registers.size(), no_register);
}

void Decoder::fail(const std::string& what) const {
  throw UserError(builder_.module.name + ":" + std::to_string(statement_ ? statement_->line : source_.line) +
                  ": " + what);
}

void Decoder::unknown() const { fail(quoted(statement_->opcode) + " is not known to the emulator"); }

void Decoder::unknown(Type t) const {
  fail(quoted(statement_->opcode) + " does not exist for ." + std::string(name_of(t)) + " in the emulator");
}

void Decoder::layout_params() {
  auto layout = [&](const std::vector<ptx::Variable>& variables, std::vector<Function::Param>& to,
                    std::uint64_t& end) {
    for (const ptx::Variable& v : variables) {
      end = (end + v.align - 1) / v.align * v.align;
      to.push_back({end, v.bytes});
      params_[&v] = end;
      end += v.bytes;
    }
  };
  if (source_.entry) {
    std::uint64_t end = 0;
    layout(source_.params, to_.params, end);
    if (end > 32764)
      fail("the kernel " + to_.name + " has " + std::to_string(end) +
           " bytes of parameters; 32764 are allowed");
    builder_.program.kernel_param_bytes = end;
  } else {
    layout(source_.returns, to_.returns, to_.param_bytes);
    layout(source_.params, to_.params, to_.param_bytes);
  }
}

void Decoder::run() {
  to_.name = std::string(source_.name);
  to_.entry = source_.entry;
  layout_params();
  for (const ptx::Variable& v : source_.variables) {
    if (v.space == Space::Local) {
      if (v.external) continue;
      to_.local_bytes = (to_.local_bytes + v.align - 1) / v.align * v.align;
      local_[&v] = to_.local_bytes;
      to_.local_bytes += v.bytes;
      if (v.align > 32 || to_.local_bytes > most_local_bytes)
        fail("the local variable " + std::string(v.name) +
             " is too large or too much aligned: a thread has 512 KiB, and 32 bytes of alignment");
    } else if (v.space == Space::Param) {
      to_.param_bytes = (to_.param_bytes + v.align - 1) / v.align * v.align;
      params_[&v] = to_.param_bytes;
      to_.param_bytes += v.bytes;
      if (to_.param_bytes > 1 << 20) fail("the function has more than 1 MiB of .param variables");
    }
  }
  to_.multiplies = std::any_of(source_.body.begin(), source_.body.end(), [](const ptx::Statement& s) {
    return s.opcode.substr(0, 16) == "wgmma.mma_async.";
  });
  for (const ptx::Statement& s : source_.body) {
    statement_ = &s;
    touched_.clear();
    first_.push_back(static_cast<std::uint32_t>(to_.code.size()));
    modifiers_.clear();
    std::string_view rest = s.opcode;
    root_ = rest.substr(0, rest.find('.'));
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      rest.remove_prefix(dot + 1);
      modifiers_.push_back(rest.substr(0, rest.find('.')));
    }
    auto known = opcodes().find(root_);
    if (known == opcodes().end()) fail("the instruction " + quoted(root_) + " is not known to the emulator");
    kind_ = known->second->kind;
    known->second->decode(*this);
    if (root_ != "wgmma" && to_.code.size() > first_.back())
      for (RegisterTouch& t : touched_) {
        t.instruction = static_cast<std::uint32_t>(to_.code.size()) - 1;
        to_.touches.push_back(std::move(t));
      }
    for (std::string_view m : modifiers_)
      if (!m.empty())
        fail("the modifier ." + std::string(m) + " of " + quoted(s.opcode) + " is not known to the emulator");
  }
  keep_touches();
  // What runs off the end leaves.
  first_.push_back(static_cast<std::uint32_t>(to_.code.size()));
  Instruction last;
  last.step = Step::Return;
  last.kind = InstructionClass::Control;
  last.line = statement_ ? statement_->line : source_.line;
  to_.code.push_back(last);
  to_.opcodes.emplace_back("ret");
  for (const Patch& p : patches_) {
    auto at = find_label(p.label, p.scope);
    if (!at)
      throw UserError(builder_.module.name + ":" + std::to_string(p.line) + ": there is no label " +
                      quoted(p.label) + " in " + to_.name);
    const std::uint32_t target = first_[*at];
    if (p.extra == ~std::size_t(0))
      to_.code[p.instruction].target = target;
    else
      to_.extras[p.extra] = target;
  }
  for (const Guess& g : speculative_loads(source_)) {
    Instruction& load = to_.code[first_[g.load + 1] - 1];
    load.speculative = true;
    load.scope = to_.code[first_[g.swap + 1] - 1].scope;
  }
}

void Decoder::watch_registers(std::span<const std::uint32_t> registers) {
  for (const std::uint32_t r : registers) {
    if (watched_.size() <= r / 64) watched_.resize(r / 64 + 1);
    watched_[r / 64] = true;
  }
}

void Decoder::keep_touches() {
  std::erase_if(to_.touches, [&](const RegisterTouch& t) {
    return t.reg / 64 >= watched_.size() || !watched_[t.reg / 64];
  });
  for (const RegisterTouch& t : to_.touches)
    to_.code[t.instruction].watched = true;
}

// --- Modifiers
// ----------------------------------------------------------------------------------------------

bool Decoder::take(std::string_view modifier) {
  auto at = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (at == modifiers_.end()) return false;
  modifiers_.erase(at);
  return true;
}

std::string_view Decoder::take_one_of(std::initializer_list<std::string_view> names) {
  for (auto at = modifiers_.begin(); at != modifiers_.end(); ++at)
    for (std::string_view name : names)
      if (*at == name) {
        modifiers_.erase(at);
        return name;
      }
  return "";
}

Type Decoder::maybe_type() {
  for (auto at = modifiers_.begin(); at != modifiers_.end(); ++at)
    if (Type t = ptx::type_named(*at); t != Type::None) {
      modifiers_.erase(at);
      return t;
    }
  return Type::None;
}

Type Decoder::take_type() {
  Type t = maybe_type();
  if (t == Type::None) fail(quoted(statement_->opcode) + " lacks a type that the emulator knows");
  return t;
}

void Decoder::take_prefix(std::string_view prefix) {
  std::erase_if(modifiers_, [&](std::string_view m) { return m.substr(0, prefix.size()) == prefix; });
}

std::optional<std::string_view> Decoder::next_modifier() const {
  if (modifiers_.empty()) return std::nullopt;
  return modifiers_.front();
}

// --- Operands
// -----------------------------------------------------------------------------------------------

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
    // %r12: a prefix, and a number that may start at any of the last digits
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
        if (dynamic_ == no_register) { // filled in when all static variables have their place
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
      if (to_.multiplies && have == 32) touched_.push_back({0, r->at, false, std::string(o.name)});
      return r->at;
    }
    fail("the register " + std::string(o.name) + " has " + std::to_string(have) + " bits, and " +
         quoted(statement_->opcode) + " takes " + std::to_string(bits));
  }
  if (o.name == "WARP_SZ") return constant(warp_size, bits);
  int have = 0;
  if (auto r = special(o.name, have)) {
    if (have == bits || (!exact && have > bits)) return *r;
    Instruction i; // as mov.u16 and mov.u64 of a 32-bit one
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
  if (auto a = symbol(o)) {
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
    fail(quoted(statement_->opcode) + " writes to what is no register");
  auto r = find_register(o.name);
  if (!r) fail("the register " + quoted(o.name) + " is not declared");
  const int have = r->type == Type::Pred ? 1 : std::max(bits_of(r->type), 16);
  if (have != bits && (exact || have < bits || bits == 1))
    fail("the register " + std::string(o.name) + " has " + std::to_string(have) + " bits, and " +
         quoted(statement_->opcode) + " writes " + std::to_string(bits));
  if (to_.multiplies && have == 32) touched_.push_back({0, r->at, true, std::string(o.name)});
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
    return a;
  }
  if (auto s = symbol(base)) return *s;
  fail("the name " + quoted(base.name) + " is not declared");
}

// --- Labels
// -------------------------------------------------------------------------------------------------

std::optional<std::size_t> Decoder::find_label(std::string_view name, int scope) const {
  for (int n = scope; n >= 0; n = source_.scopes[static_cast<std::size_t>(n)].parent) {
    const auto& labels = source_.scopes[static_cast<std::size_t>(n)].labels;
    if (auto at = labels.find(name); at != labels.end()) return at->second;
  }
  return std::nullopt;
}

void Decoder::branch_to(std::string_view label, std::size_t instruction) {
  patches_.push_back({instruction, label, statement_->scope, statement_->line, ~std::size_t(0)});
}

void Decoder::jump_table(const ptx::Scope::Names& labels, Instruction& i) {
  i.count = static_cast<std::uint32_t>(labels.size());
  i.extra = static_cast<std::uint32_t>(to_.extras.size());
  for (std::string_view label : labels) {
    patches_.push_back({0, label, statement_->scope, statement_->line, to_.extras.size()});
    to_.extras.push_back(0);
  }
}

// --- Emitting
// -----------------------------------------------------------------------------------------------

Instruction Decoder::start() const {
  Instruction i;
  i.kind = kind_;
  i.line = statement_->line;
  i.location = statement_->location;
  return i;
}

void Decoder::emit(Instruction i) {
  if (!statement_->guard.empty()) {
    auto p = find_register(statement_->guard);
    if (!p || p->type != Type::Pred) fail("the guard " + quoted(statement_->guard) + " is no predicate");
    i.guard = p->at;
    i.guard_negated = statement_->guard_negated;
  }
  to_.code.push_back(i);
  to_.opcodes.emplace_back(statement_->opcode);
}

void Decoder::emit_hidden(Instruction i) {
  to_.code.push_back(i);
  to_.opcodes.emplace_back(statement_->opcode);
}

std::uint32_t Decoder::extras(std::span<const std::uint32_t> values) {
  const auto at = static_cast<std::uint32_t>(to_.extras.size());
  to_.extras.insert(to_.extras.end(), values.begin(), values.end());
  return at;
}

namespace {
void negate_predicate(Warp& w, const Instruction& i, Mask m) {
  w.pred(i.d) = (w.pred(i.d) & ~m) | (~w.pred(i.a) & m);
}
} // namespace

namespace {

bool speaks_to_other_blocks(const Instruction& i, const std::string& opcode) {
  if (i.kind == InstructionClass::Fence) return true;
  if (i.space == ptx::Space::Shared) return false;
  if (i.kind == InstructionClass::Atomic) return true;
  for (const char* word : {".volatile", ".relaxed", ".acquire", ".release", ".mmio", "reduce."})
    if (opcode.find(word) != std::string::npos) return true;
  return false;
}

} // namespace

std::unique_ptr<Program> decode(const ptx::Module& module, const std::string& kernel,
                                const std::function<const Region*(std::string_view)>& variable) {
  auto named = module.function_named.find(kernel);
  if (named == module.function_named.end() || !module.functions[named->second].entry) {
    std::string others;
    for (const auto& f : module.functions)
      if (f.entry) others += (others.empty() ? "" : ", ") + std::string(f.name);
    throw UserError(module.name + ": there is no kernel " + kernel + "; " +
                    (others.empty() ? "it has none" : "it has " + others));
  }
  auto program = std::make_unique<Program>();
  program->module = module.name;
  program->kernel = kernel;
  program->locations = module.locations;
  program->files = module.files;
  const ptx::Function& entry = module.functions[named->second];
  for (int k = 0; k < 3; ++k) {
    program->required[static_cast<std::size_t>(k)] = entry.required_threads[k];
    program->maximum[static_cast<std::size_t>(k)] = entry.maximum_threads[k];
    program->cluster[static_cast<std::size_t>(k)] = entry.cluster[k];
  }
  program->registers = entry.registers_per_thread;
  ProgramBuilder builder{module, *program, variable, {}, {}, {}, {}, false, 0, 16};
  builder.function(entry.name);
  for (std::size_t k = 0;; ++k) {
    if (k == builder.to_decode.size() && builder.calls_indirectly) builder.functions_by_address();
    if (k == builder.to_decode.size()) break;
    const std::string_view name = builder.to_decode[k];
    const ptx::Function& source = module.functions[module.function_named.at(name)];
    if (!source.defined)
      throw UserError(module.name + ":" + std::to_string(source.line) + ": the function " +
                      std::string(name) + " is called and not defined");
    program->functions.push_back(std::make_unique<Function>());
    Decoder(builder, source, *program->functions.back()).run();
  }
  program->shared_bytes = builder.shared_bytes;
  program->dynamic_offset =
      (builder.shared_bytes + builder.dynamic_align - 1) / builder.dynamic_align * builder.dynamic_align;
  // The address of dynamic shared memory is known only now.
  for (auto& f : program->functions)
    for (Constant& c : f->constants)
      if (c.dynamic) c.value = program->dynamic_offset;
  program->independent_blocks = !program->cooperative;
  for (auto& f : program->functions) {
    f->first = program->instructions;
    program->instructions += f->code.size();
    for (std::size_t n = 0; n < f->code.size(); ++n)
      program->independent_blocks &= !speaks_to_other_blocks(f->code[n], f->opcodes[n]);
  }
  return program;
}

} // namespace kiln::emulator
