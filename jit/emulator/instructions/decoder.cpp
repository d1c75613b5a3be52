// Decodes the statements of a function: finds each opcode in the tables, and patches labels at the end.
#include "decoder.h"
#include "copies.h"
#include "speculation.h"

#include <algorithm>
#include <kiln/dsl/error.h>

namespace kiln::emulator {
namespace {

constexpr std::uint64_t most_local_bytes = 512 << 10;

const std::unordered_map<std::string_view, const Opcode*>& opcodes() {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Opcode*> all;
    for (auto family :
         {arithmetic_opcodes(), video_opcodes(), bit_opcodes(), comparison_opcodes(), conversion_opcodes(),
          move_opcodes(), memory_opcodes(), atomic_opcodes(), control_opcodes(), call_opcodes(),
          stack_opcodes(), warp_opcodes(), mma_opcodes(), wmma_opcodes(), matrix_opcodes(),
          asynchronous_opcodes(), mbarrier_opcodes(), tensor_map_opcodes(), wgmma_opcodes()})
      for (const Opcode& o : family)
        all.emplace(o.name, &o);
    return all;
  }();
  return table;
}

} // namespace

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
             " is too large or its alignment is: a thread has 512 KiB of local memory, aligned to 32 bytes");
    } else if (v.space == Space::Param) {
      to_.param_bytes = (to_.param_bytes + v.align - 1) / v.align * v.align;
      params_[&v] = to_.param_bytes;
      to_.param_bytes += v.bytes;
      if (to_.param_bytes > 1 << 20) fail("the function has more than 1 MiB of .param variables");
    }
  }
  to_.uses_wgmma = std::any_of(source_.body.begin(), source_.body.end(), [](const ptx::Statement& s) {
    return s.opcode.substr(0, 16) == "wgmma.mma_async.";
  });
  for (const ptx::Statement& s : source_.body) {
    statement_ = &s;
    touched_.clear();
    uses_.clear();
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
    note_uses();
    if (root_ != "wgmma" && to_.code.size() > first_.back())
      for (RegisterTouch& t : touched_) {
        t.instruction = static_cast<std::uint32_t>(to_.code.size()) - 1;
        to_.touches.push_back(std::move(t));
      }
    for (std::string_view m : modifiers_)
      if (!m.empty())
        fail("the modifier ." + std::string(m) + " of " + quoted(s.opcode) + " is not known to the emulator");
  }
  keep_watched_touches();
  // A function ends with a return, also without a ret.
  first_.push_back(static_cast<std::uint32_t>(to_.code.size()));
  Instruction last;
  last.step = Step::Return;
  last.kind = InstructionClass::Control;
  last.line = statement_ ? statement_->line : source_.line;
  to_.code.push_back(last);
  to_.opcodes.emplace_back("ret");
  to_.copying.resize(to_.code.size());
  follow_copies(source_, first_, to_);
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

void Decoder::note_uses() {
  if (to_.code.size() == first_.back()) return;
  to_.copying.resize(to_.code.size());
  Copying& c = to_.copying.back();
  c = copying_of(*statement_);
  c.first_use = static_cast<std::uint32_t>(to_.uses.size());
  c.uses = static_cast<std::uint32_t>(uses_.size());
  to_.uses.insert(to_.uses.end(), uses_.begin(), uses_.end());
}

void Decoder::watch_registers(std::span<const std::uint32_t> registers) {
  for (const std::uint32_t r : registers) {
    if (watched_.size() <= r / 64) watched_.resize(r / 64 + 1);
    watched_[r / 64] = true;
  }
}

void Decoder::keep_watched_touches() {
  std::erase_if(to_.touches, [&](const RegisterTouch& t) {
    return t.reg / 64 >= watched_.size() || !watched_[t.reg / 64];
  });
  for (const RegisterTouch& t : to_.touches)
    to_.code[t.instruction].watched = true;
}

// --- Modifiers ---------------------------------------------------------------------------------------------

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

Scope take_scope(Decoder& d, Scope otherwise) {
  const std::string_view s = d.take_one_of({"cta", "cluster", "gpu", "gl", "sys"});
  return s == "cta"                ? Scope::Cta
         : s == "cluster"          ? Scope::Cluster
         : s == "gpu" || s == "gl" ? Scope::Gpu
         : s == "sys"              ? Scope::System
                                   : otherwise;
}

// --- Labels ------------------------------------------------------------------------------------------------

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

// --- Emitting ----------------------------------------------------------------------------------------------

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

} // namespace kiln::emulator
