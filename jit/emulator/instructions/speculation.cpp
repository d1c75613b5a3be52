// Follows the value of a load through a function, to find out whether it only guesses for a compare-and-swap.
#include "speculation.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace kiln::emulator {
namespace {

using ptx::Operand;
using ptx::Statement;

constexpr int most_steps = 20'000; // limit for one load; beyond it, the load counts as an ordinary one

std::vector<std::string_view> words_of(std::string_view opcode) {
  std::vector<std::string_view> words;
  for (std::size_t dot; (dot = opcode.find('.')) != opcode.npos; opcode.remove_prefix(dot + 1))
    words.push_back(opcode.substr(0, dot));
  words.push_back(opcode);
  return words;
}
bool has(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
int bits_of_last(const std::vector<std::string_view>& words) {
  return ptx::bits_of(ptx::type_named(words.back()));
}

bool computes(std::string_view root) {
  static constexpr std::array all = {
      "abs",  "add", "and", "bfe",  "bfi",  "brev",  "clz", "cnot",  "copysign", "cvt",   "div",
      "ex2",  "fma", "lg2", "lop3", "mad",  "mad24", "max", "min",   "mov",      "mul",   "mul24",
      "neg",  "not", "or",  "popc", "prmt", "rcp",   "rem", "rsqrt", "sad",      "selp",  "set",
      "setp", "shf", "shl", "shr",  "slct", "sqrt",  "sub", "szext", "tanh",     "testp", "xor"};
  return std::find(all.begin(), all.end(), root) != all.end();
}
// Instructions that write only their first operand.
bool has_result(std::string_view root) {
  return computes(root) || root == "ld" || root == "ldu" || root == "atom" || root == "cvta";
}

class Follower {
public:
  explicit Follower(const ptx::Function& f) : f_(f) {
    for (const Statement& s : f.body)
      words_.push_back(words_of(s.opcode));
    for (std::size_t n = 0; n < f.body.size(); ++n)
      if (const Statement& s = f.body[n]; !s.operands.empty() && s.operands[0].kind != Operand::Kind::Address)
        each_register(s.operands[0], s.scope, [&](int r) { written_[r].push_back(n); });
  }

  // Returns the swap for which the load guesses; nothing if its value is also used otherwise.
  std::optional<std::size_t> follow(std::size_t load) {
    const Statement& s = f_.body[load];
    const auto& words = words_[load];
    if (words[0] != "ld" || s.operands.size() != 2 || s.operands[0].kind != Operand::Kind::Name) return {};
    for (std::string_view w : {"volatile", "relaxed", "acquire", "mmio", "nc", "const", "param", "local"})
      if (has(words, w)) return {};
    load_ = load;
    address_ = place(s.operands[1], s.scope);
    swap_.reset();
    const auto result = find(s.operands[0].name, s.scope);
    if (!address_ || !result) return {};
    before_.clear();
    due_.clear();
    arrive(load, {});
    for (int steps = 0; !due_.empty(); ++steps) {
      const std::size_t n = due_.back();
      due_.pop_back();
      if (steps > most_steps || !step(n, before_.at(n))) return {};
    }
    return swap_;
  }

private:
  struct Value {
    enum class Kind : std::uint8_t {
      Swapped, // the value that a swap which compared with `from` found
      Equal,   // a predicate that is `when` if `from` equals what the swap found
      Copy,    // a copy of the loaded value, not confirmed yet
      Derived  // computed from such a copy
    };
    Kind kind;
    int from = -1; // the register that it comes from, if that has not changed since
    bool when = false;
    bool guessed() const { return kind >= Kind::Copy; }
    bool operator==(const Value&) const = default;
  };
  using Values = std::map<int, Value>; // by register; the load does not affect others
  struct Place {
    std::string_view symbol; // empty if it is a register that is written once
    int reg;
    std::int64_t offset;
    bool operator==(const Place&) const = default;
  };

  // --- Names
  std::optional<int> find(std::string_view name, int scope) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    for (int n = scope; n >= 0; n = f_.scopes[static_cast<std::size_t>(n)].parent) {
      const ptx::Scope& s = f_.scopes[static_cast<std::size_t>(n)];
      bool known = s.registers.count(name) != 0; // declared by itself, or as a prefix and a number
      for (std::size_t cut = digits; cut < name.size() && !known; ++cut)
        known = s.ranges.count(name.substr(0, cut)) != 0;
      if (known) return registers_.try_emplace({n, name}, static_cast<int>(registers_.size())).first->second;
    }
    return {};
  }
  template <class F> void each_register(const Operand& o, int scope, const F& f) {
    if (o.kind == Operand::Kind::Name)
      if (auto r = find(o.name, scope)) f(*r);
    for (const Operand& part : o.parts)
      each_register(part, scope, f);
  }
  std::optional<Place> place(const Operand& o, int scope) {
    if (o.kind != Operand::Kind::Address || o.parts.size() != 1) return {};
    return place_of(o.parts[0], scope, 0);
  }
  std::optional<Place> place_of(const Operand& o, int scope, int depth) {
    if (o.kind != Operand::Kind::Name || depth > 8) return {};
    const auto r = find(o.name, scope);
    if (!r) return Place{o.name, -1, o.offset};
    const auto& by = written_[*r];
    if (by.size() != 1) return {};
    const Statement& s = f_.body[by[0]];
    if (words_[by[0]][0] == "mov" && s.guard.empty() && s.operands.size() == 2)
      if (auto p = place_of(s.operands[1], s.scope, depth + 1)) {
        p->offset += o.offset;
        return p;
      }
    return Place{"", *r, o.offset};
  }

  // --- Values
  void arrive(std::size_t n, const Values& values) {
    if (n >= f_.body.size()) return;
    auto [at, fresh] = before_.try_emplace(n, values);
    if (!fresh) {
      Values joined = join(at->second, values);
      if (joined == at->second) return;
      at->second = std::move(joined);
    }
    due_.push_back(n);
  }
  static Values join(const Values& a, const Values& b) {
    Values all;
    for (const auto* side : {&a, &b})
      for (const auto& [r, v] : *side) {
        const Values& other = side == &a ? b : a;
        const auto o = other.find(r);
        if (o == other.end()) {
          if (v.guessed()) all[r] = {v.kind, -1, false};
        } else if (o->second == v) {
          all[r] = v;
        } else if (const auto kind = std::max(v.kind, o->second.kind); kind >= Value::Kind::Copy) {
          all[r] = {kind, -1, false};
        }
      }
    return all;
  }
  // Removes what was known by the value of a register, which gets another value.
  static void forget(Values& values, int r) {
    for (auto at = values.begin(); at != values.end();) {
      if (at->second.from == r) at->second.from = -1;
      const bool fact = !at->second.guessed() && (at->second.from < 0 || at->first == r);
      at = fact ? values.erase(at) : std::next(at);
    }
  }
  static void write(Values& values, int r, bool always, std::optional<Value> v) {
    forget(values, r);
    if (v && v->from == r) v->from = -1;
    if (v && !v->guessed() && (v->from < 0 || !always)) v.reset();
    if (!always && values.count(r)) v = v ? std::optional(Value{Value::Kind::Derived}) : values.at(r);
    if (v)
      values.insert_or_assign(r, *v);
    else
      values.erase(r);
  }
  // A swap confirmed the value of a register. This confirms the registers it comes from, and those that come
  // from it.
  static void confirm(Values& values, int r) {
    std::vector<int> known = {r};
    while (!known.empty()) {
      const int k = known.back();
      known.pop_back();
      const auto at = values.find(k);
      if (at == values.end() || !at->second.guessed()) continue;
      const Value v = at->second;
      values.erase(at);
      if (v.kind == Value::Kind::Copy && v.from >= 0) known.push_back(v.from);
      for (const auto& [other, o] : values)
        if (o.from == k && o.guessed()) known.push_back(other);
    }
  }

  // Computes the values after a statement. Returns false if the statement uses the loaded value otherwise.
  bool step(std::size_t n, Values values) {
    const Statement& s = f_.body[n];
    const auto& words = words_[n];
    const std::string_view root = words[0];
    const bool result = has_result(root) && !s.operands.empty(), always = s.guard.empty();
    auto value_of = [&](std::optional<int> r) -> const Value* {
      const auto at = r ? values.find(*r) : values.end();
      return at == values.end() ? nullptr : &at->second;
    };
    auto register_of = [&](std::size_t k) -> std::optional<int> {
      if (k >= s.operands.size() || s.operands[k].kind != Operand::Kind::Name) return {};
      return find(s.operands[k].name, s.scope);
    };
    const auto guard = always ? std::nullopt : find(s.guard, s.scope);
    if (const Value* v = value_of(guard); v && v->guessed()) return false;
    int from = -1, sources = 0;
    for (std::size_t k = result ? 1 : 0; k < s.operands.size(); ++k)
      each_register(s.operands[k], s.scope, [&](int r) {
        if (const Value* v = value_of(r); v && v->guessed()) from = r, ++sources;
      });
    std::optional<Value> made;
    if (n == load_) {
      if (sources) return false;
      made = Value{Value::Kind::Copy};
    } else if (root == "atom" && has(words, "cas") && s.operands.size() >= 4 &&
               place(s.operands[1], s.scope) == address_ &&
               bits_of_last(words) == bits_of_last(words_[load_])) {
      const auto looked_for = register_of(2);
      const Value* v = value_of(looked_for);
      bool address = false;
      each_register(s.operands[1], s.scope, [&](int r) {
        const Value* a = value_of(r);
        address |= a && a->guessed();
      });
      if (address || (sources && (!v || v->kind != Value::Kind::Copy))) return false;
      if (!swap_) swap_ = n;
      if (looked_for) made = Value{Value::Kind::Swapped, *looked_for};
    } else if (root == "setp" && words.size() == 3 && (words[1] == "eq" || words[1] == "ne") &&
               !ptx::is_float(ptx::type_named(words[2])) && s.operands.size() == 3 &&
               s.operands[0].kind == Operand::Kind::Name) {
      const auto a = register_of(1), b = register_of(2);
      const Value *x = value_of(a), *y = value_of(b);
      if (x && x->kind == Value::Kind::Swapped && x->from == b)
        made = Value{Value::Kind::Equal, *b, words[1] == "eq"};
      else if (y && y->kind == Value::Kind::Swapped && y->from == a)
        made = Value{Value::Kind::Equal, *a, words[1] == "eq"};
      else if (sources)
        made = Value{Value::Kind::Derived};
    } else if (sources) {
      if (!computes(root)) return false;
      const bool copies = root == "mov" && sources == 1 && s.operands[1].kind == Operand::Kind::Name &&
                          s.operands[0].kind == Operand::Kind::Name &&
                          values.at(from).kind == Value::Kind::Copy;
      made = Value{copies ? Value::Kind::Copy : Value::Kind::Derived, sources == 1 ? from : -1};
    } else if (root == "mov" && s.operands.size() == 2) {
      if (const Value* v = value_of(register_of(1))) made = *v;
    }
    if (root == "brx") return false;
    if (root == "bra" && !s.operands.empty()) {
      const auto target = label(s.operands[0].name, s.scope);
      if (!target) return false;
      const Value* v = value_of(guard);
      const bool tests = v && v->kind == Value::Kind::Equal;
      const bool taken = tests && v->when == !s.guard_negated; // the branch is taken where they are equal
      Values equal = values;
      if (tests) confirm(equal, v->from);
      arrive(*target, tests && taken ? equal : values);
      if (!always) arrive(n + 1, tests && !taken ? equal : values);
      return true;
    }
    if (!s.operands.empty() && s.operands[0].kind != Operand::Kind::Address)
      each_register(s.operands[0], s.scope, [&](int r) {
        if (result)
          write(values, r, always, made);
        else
          forget(values, r);
        if (r == address_->reg) // from here on the address is that of another word
          for (auto& [other, v] : values)
            if (v.guessed()) v = {Value::Kind::Derived};
      });
    if ((root == "ret" || root == "exit" || root == "trap") && always) return true;
    arrive(n + 1, values);
    return true;
  }
  std::optional<std::size_t> label(std::string_view name, int scope) const {
    for (int n = scope; n >= 0; n = f_.scopes[static_cast<std::size_t>(n)].parent) {
      const auto& labels = f_.scopes[static_cast<std::size_t>(n)].labels;
      if (auto at = labels.find(name); at != labels.end()) return at->second;
    }
    return {};
  }

  const ptx::Function& f_;
  std::vector<std::vector<std::string_view>> words_; // of each opcode
  std::map<std::pair<int, std::string_view>, int> registers_;
  std::map<int, std::vector<std::size_t>> written_; // the statements that write each register
  std::size_t load_ = 0;
  std::optional<Place> address_;
  std::optional<std::size_t> swap_;
  std::map<std::size_t, Values> before_; // the values before each statement
  std::vector<std::size_t> due_;
};

} // namespace

std::vector<Guess> speculative_loads(const ptx::Function& f) {
  auto swaps = [](const Statement& s) {
    return s.opcode.substr(0, 5) == "atom." && s.opcode.find(".cas.") != s.opcode.npos;
  };
  std::vector<Guess> all;
  if (std::none_of(f.body.begin(), f.body.end(), swaps)) return all;
  Follower follower(f);
  for (std::size_t n = 0; n < f.body.size(); ++n)
    if (f.body[n].opcode.substr(0, 3) == "ld.")
      if (const auto swap = follower.follow(n)) all.push_back({n, *swap});
  return all;
}

} // namespace kiln::emulator
