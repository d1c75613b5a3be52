// Holds the table of algebraic rules, reads their text and matches them.
#include <kiln/jit/passes/rewrite_rules.h>

#include <kiln/jit/passes/commutative.h>

#include <array>
#include <memory>

namespace kiln::passes {

using namespace ir;

// No rule changes a rounding, the sign of a zero, or the result for a NaN: SEMANTICS.md allows none of it.
// The test tests/jit/passes/test_rewrite_rules.cpp applies every rule for every dtype and compares bits.
const std::vector<RewriteRule>& rewrite_rules() {
  // Never destroyed, because destructors of static objects may still compile kernels.
  static const auto& rules = *new std::vector<RewriteRule>{
      // sums
      {"add(x, 0) -> x", Holds::Integers},
      {"add(x, -0) -> x", Holds::AllButE5M2}, // x + +0 would turn -0 into +0
      {"sub(x, 0) -> x", Holds::AllButE5M2},
      {"sub(x, x) -> 0", Holds::Integers},
      {"sub(x, c) -> add(x, neg(c))", Holds::Integers},
      {"add(x, neg(y)) -> sub(x, y)", Holds::AllButE5M2},
      {"sub(x, neg(y)) -> add(x, y)", Holds::AllButE5M2},
      {"add(add(x, c), d) -> add(x, add(c, d))", Holds::Integers},
      {"add(add(x, s), t) -> add(x, add(s, t))", Holds::Integers},
      {"sub(add(x, s), t) -> add(x, sub(s, t))", Holds::Integers},
      {"sub(add(x, y), x) -> y", Holds::Integers},
      {"add(sub(x, y), y) -> x", Holds::Integers},
      {"neg(neg(x)) -> x", Holds::AllButE5M2},
      {"neg(sub(x, y)) -> sub(y, x)", Holds::Integers},
      {"abs(abs(x)) -> abs(x)", Holds::AnyDType},
      {"abs(neg(x)) -> abs(x)", Holds::FloatsButE5M2}, // abs of an unsigned number is the number itself
      // products
      {"mul(x, 0) -> 0", Holds::Integers},
      {"mul(x, 1) -> x", Holds::AllButE5M2},
      {"mul(x, -1) -> neg(x)", Holds::AllButE5M2},
      {"mul(mul(x, c), d) -> mul(x, mul(c, d))", Holds::Integers},
      {"div(x, 0) -> 0", Holds::Integers},
      {"div(0, x) -> 0", Holds::Integers},
      {"div(x, 1) -> x", Holds::AllButE5M2},
      {"rem(x, 0) -> x", Holds::Integers},
      {"rem(0, x) -> 0", Holds::Integers},
      {"rem(x, 1) -> 0", Holds::Integers},
      {"fma(x, 1, y) -> add(x, y)", Holds::FloatsButE5M2},
      {"fma(x, y, -0) -> mul(x, y)", Holds::FloatsButE5M2},
      {"pow(x, 1) -> x", Holds::AllButE5M2},
      {"pow(x, 2) -> mul(x, x)", Holds::FloatsUpToF32}, // the square is exact before its one rounding
      // bits
      {"and(x, x) -> x", Holds::IntegersAndBool},
      {"and(x, 0) -> 0", Holds::IntegersAndBool},
      {"and(x, ones) -> x", Holds::IntegersAndBool},
      {"and(and(x, y), x) -> and(x, y)", Holds::IntegersAndBool},
      {"and(and(x, c), d) -> and(x, and(c, d))", Holds::IntegersAndBool},
      {"or(x, x) -> x", Holds::IntegersAndBool},
      {"or(x, 0) -> x", Holds::IntegersAndBool},
      {"or(x, ones) -> ones", Holds::IntegersAndBool},
      {"or(or(x, y), x) -> or(x, y)", Holds::IntegersAndBool},
      {"or(or(x, c), d) -> or(x, or(c, d))", Holds::IntegersAndBool},
      {"xor(x, x) -> 0", Holds::IntegersAndBool},
      {"xor(x, 0) -> x", Holds::IntegersAndBool},
      {"xor(x, ones) -> not(x)", Holds::IntegersAndBool},
      {"xor(xor(x, c), d) -> xor(x, xor(c, d))", Holds::IntegersAndBool},
      {"not(not(x)) -> x", Holds::IntegersAndBool},
      {"shl(x, 0) -> x", Holds::Integers},
      {"shl(0, x) -> 0", Holds::Integers},
      {"shr(x, 0) -> x", Holds::Integers},
      {"shr(0, x) -> 0", Holds::Integers},
      // order
      {"min(x, x) -> x", Holds::AllButE5M2},
      {"max(x, x) -> x", Holds::AllButE5M2},
      {"min_nan(x, x) -> x", Holds::FloatsButE5M2},
      {"max_nan(x, x) -> x", Holds::FloatsButE5M2},
      {"eq(x, x) -> true", Holds::IntegersAndBool},
      {"ne(x, x) -> false", Holds::IntegersAndBool},
      {"lt(x, x) -> false", Holds::AnyDType},
      {"gt(x, x) -> false", Holds::AnyDType},
      {"le(x, x) -> true", Holds::IntegersAndBool},
      {"ge(x, x) -> true", Holds::IntegersAndBool},
      {"not(eq(x, y)) -> ne(x, y)", Holds::AnyDType},
      {"not(ne(x, y)) -> eq(x, y)", Holds::AnyDType},
      {"not(lt(x, y)) -> ge(x, y)", Holds::IntegersAndBool},
      {"not(le(x, y)) -> gt(x, y)", Holds::IntegersAndBool},
      {"not(gt(x, y)) -> le(x, y)", Holds::IntegersAndBool},
      {"not(ge(x, y)) -> lt(x, y)", Holds::IntegersAndBool},
      {"eq(x, true) -> x", Holds::Bool},
      {"eq(x, false) -> not(x)", Holds::Bool},
      {"ne(x, false) -> x", Holds::Bool},
      {"ne(x, true) -> not(x)", Holds::Bool},
      // choices
      {"select(true, x, y) -> x", Holds::AnyDType},
      {"select(false, x, y) -> y", Holds::AnyDType},
      {"select(a, x, x) -> x", Holds::AnyDType},
      {"select(not(a), x, y) -> select(a, y, x)", Holds::AnyDType},
      {"select(a, true, false) -> a", Holds::Bool},
      {"select(a, false, true) -> not(a)", Holds::Bool},
      // addresses
      {"ptr_add(x, 0) -> x", Holds::AnyDType},
      {"ptr_add(ptr_add(x, y), z) -> ptr_add(x, add(y, z))", Holds::AnyDType},
  };
  return rules;
}

namespace {

struct Pattern {
  enum class Kind : std::uint8_t {
    Op,
    Value,
    Splat,
    Constant,
    Number,
    NegativeZero,
    Ones
  } kind = Kind::Value;
  Opcode code = Opcode::Constant;
  char letter = 0;
  std::int64_t number = 0;
  bool boolean = false; // `true` or `false`, which match bool only
  int swappable =
      -1; // the bit that says to match the two operands in the other order; -1: they cannot be swapped
  std::vector<Pattern> operands;
};

// Reads one side of a rule. Rules are part of the program, so text that does not parse is an internal error.
class Reader {
public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Pattern pattern() {
    Pattern p;
    std::string_view word = next_word();
    if (rest_.starts_with("(")) {
      p.kind = Pattern::Kind::Op;
      p.code = opcode(word);
      do {
        rest_.remove_prefix(1);
        p.operands.push_back(pattern());
      } while (rest_.starts_with(","));
      internal_check(rest_.starts_with(")"), "a rewrite rule lacks a parenthesis");
      rest_.remove_prefix(1);
      if (is_commutative(p.code) && p.operands[1].kind < Pattern::Kind::Constant) p.swappable = swappable_++;
    } else if (word == "-0") {
      p.kind = Pattern::Kind::NegativeZero;
    } else if (word == "ones") {
      p.kind = Pattern::Kind::Ones;
    } else if (word == "true" || word == "false") {
      p.kind = Pattern::Kind::Number;
      p.number = word == "true";
      p.boolean = true;
    } else if (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')) {
      p.kind = Pattern::Kind::Number;
      p.number = std::stoll(std::string(word));
    } else {
      internal_check(word.size() == 1,
                     [&] { return "a rewrite rule has an unknown word: " + std::string(word); });
      p.letter = word[0];
      p.kind = p.letter == 'c' || p.letter == 'd'   ? Pattern::Kind::Constant
               : p.letter == 's' || p.letter == 't' ? Pattern::Kind::Splat
                                                    : Pattern::Kind::Value;
    }
    return p;
  }

  // How many of the operations may have their operands in either order.
  int swappable() const { return swappable_; }

private:
  std::string_view next_word() {
    while (rest_.starts_with(" "))
      rest_.remove_prefix(1);
    std::string_view word = rest_.substr(0, rest_.find_first_of("(),"));
    internal_check(!word.empty(), "a rewrite rule ends early");
    rest_.remove_prefix(word.size());
    return word;
  }
  static Opcode opcode(std::string_view word) {
    for (const OpInfo& op : op_table)
      if (op.name == word) return op.code;
    internal_error("a rewrite rule has an unknown operation: " + std::string(word));
  }

  std::string_view rest_;
  int swappable_ = 0;
};

struct ReadRule {
  Pattern from, to;
  unsigned orders; // of the operands in `from`
  Holds holds;
};

ReadRule read(const RewriteRule& rule) {
  const std::size_t arrow = rule.text.find(" -> ");
  Reader from(rule.text.substr(0, arrow)), to(rule.text.substr(arrow + 4));
  Pattern pattern = from.pattern();
  return {std::move(pattern), to.pattern(), 1U << from.swappable(), rule.holds};
}

// The rules of the table by the operation at the root of their patterns.
const std::array<std::vector<ReadRule>, op_count>& rules_by_root() {
  static const auto& rules = *[] {
    auto* made = new std::array<std::vector<ReadRule>, op_count>;
    auto& table = *made;
    for (const RewriteRule& rule : rewrite_rules()) {
      ReadRule parsed = read(rule);
      table[static_cast<std::size_t>(parsed.from.code)].push_back(std::move(parsed));
    }
    return made;
  }();
  return rules;
}

bool holds_for(Holds holds, const Type& type) {
  DType t = cell_dtype(type);
  switch (holds) {
  case Holds::AnyDType: return true;
  case Holds::Integers: return is_integer(t) && !type.pointer;
  case Holds::IntegersAndBool: return !is_float(t) && !type.pointer;
  case Holds::Bool: return t == DType::Bool;
  case Holds::FloatsButE5M2: return is_float(t) && t != DType::F8E5M2;
  case Holds::AllButE5M2: return t != DType::F8E5M2 && !type.pointer;
  case Holds::FloatsUpToF32: return is_float(t) && t != DType::F64;
  }
  return false;
}

std::optional<Cell> literal(const Pattern& p, const Type& type) {
  DType t = cell_dtype(type);
  if (p.boolean && t != DType::Bool) return std::nullopt;
  switch (p.kind) {
  case Pattern::Kind::NegativeZero: return is_float(t) ? cell_of_float(t, -0.0L) : 0;
  case Pattern::Kind::Ones: return is_float(t) ? std::nullopt : std::optional(cell_of_integer(t, -1));
  default:
    if (is_float(t)) return cell_of_float(t, static_cast<long double>(p.number));
    return t == DType::Bool && p.number > 1 ? std::nullopt : std::optional(cell_of_integer(t, p.number));
  }
}

// Matches a pattern with its operands in one of the orders; bit i of `order` swaps those of the operation
// whose `swappable` is i.
class Match {
public:
  explicit Match(unsigned order) : order_(order) {}

  bool match(const Pattern& p, Value* v) {
    switch (p.kind) {
    case Pattern::Kind::Value: return bind(p.letter, v);
    case Pattern::Kind::Splat: return v->def && v->def->is(Opcode::Splat) && bind(p.letter, v);
    case Pattern::Kind::Constant: return constant_of(v) && bind(p.letter, v);
    case Pattern::Kind::Op: return v->def && match(p, *v->def);
    default: {
      std::optional<Cell> found = constant_of(v), wanted = literal(p, v->type);
      return found && wanted && *found == *wanted;
    }
    }
  }
  bool match(const Pattern& p, const Op& op) {
    if (op.code != p.code || op.operands.size() != p.operands.size()) return false;
    const bool swapped = p.swappable >= 0 && (order_ >> p.swappable & 1) != 0;
    for (std::size_t i = 0; i < p.operands.size(); ++i)
      if (!match(p.operands[i], op.operands[swapped ? 1 - i : i])) return false;
    return true;
  }
  Value* operator[](char letter) const {
    for (const auto& [l, v] : bound_)
      if (l == letter) return v;
    return nullptr;
  }
  // The type that decides whether the rule holds: of x, and not of the condition of a select.
  const Type& type() const { return ((*this)['x'] ? (*this)['x'] : bound_.front().second)->type; }

private:
  bool bind(char letter, Value* v) {
    if (Value* already = (*this)[letter]) return already == v;
    bound_.emplace_back(letter, v);
    return true;
  }
  unsigned order_;
  std::vector<std::pair<char, Value*>> bound_;
};

Value* build(const Pattern& p, const Match& match, const Type& type, const MakeOp& make,
             const MakeConstant& make_constant) {
  if (p.letter) return match[p.letter];
  if (p.kind != Pattern::Kind::Op) return make_constant(type, *literal(p, type));
  std::vector<Value*> operands;
  for (const Pattern& operand : p.operands)
    operands.push_back(build(operand, match, type, make, make_constant));
  const Type& of = operands[p.code == Opcode::Select ? 1 : 0]->type;
  return make(p.code, operands, info(p.code).cls == OpClass::Compare ? of.with_dtype(DType::Bool) : of);
}

Value* apply(const ReadRule& rule, const Op& op, const MakeOp& make, const MakeConstant& make_constant) {
  if (op.code != rule.from.code) return nullptr;
  for (unsigned order = 0; order < rule.orders; ++order) {
    Match match(order);
    if (match.match(rule.from, op))
      return holds_for(rule.holds, match.type())
                 ? build(rule.to, match, op.result()->type, make, make_constant)
                 : nullptr;
  }
  return nullptr;
}

} // namespace

std::optional<Cell> constant_of(const Value* v) {
  const Op* def = v->def;
  if (def && def->is(Opcode::Splat)) def = def->operand(0)->def;
  if (!def || !def->is(Opcode::Constant)) return std::nullopt;
  return constant_cell(*def);
}

Value* rewrite(const Op& op, const MakeOp& make, const MakeConstant& make_constant) {
  for (const ReadRule& rule : rules_by_root()[static_cast<std::size_t>(op.code)])
    if (Value* replacement = apply(rule, op, make, make_constant)) return replacement;
  return nullptr;
}

Value* apply_rule(const RewriteRule& rule, const Op& op, const MakeOp& make,
                  const MakeConstant& make_constant) {
  return apply(read(rule), op, make, make_constant);
}

} // namespace kiln::passes
