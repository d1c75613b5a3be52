// Parses blocks of statements and their operands.
#include "layers.h"

#include <utility>

namespace kiln::emulator::ptx {
namespace {

constexpr int deepest_nesting = 64;

} // namespace

void BodyParser::body(Function& f, int scope, int depth) {
  int line = peek().line;
  if (depth > deepest_nesting) fail(line, "blocks nest too deeply");
  if (depth == 0) { // what came before belonged to another function
    location_ = -1;
    places_.clear();
    used_bytes_ = all_bytes;
  }
  for (;;) {
    const Token& token = peek();
    if (token.kind == Token::Kind::End) fail(line, "this '{' is never closed");
    if (accept("}")) return;
    if (accept(";")) continue;
    if (accept("{")) {
      Scope inner;
      inner.parent = scope;
      f.scopes.push_back(std::move(inner));
      body(f, static_cast<int>(f.scopes.size()) - 1, depth + 1);
    } else if (token.is(".reg")) {
      registers(f, scope);
    } else if (token.is(".loc")) {
      location_ = location();
    } else if (accept(".pragma")) {
      pragma();
    } else if (token.is(".file")) {
      file();
    } else if (token.kind == Token::Kind::Directive) {
      variables_of(f, scope);
    } else if (token.kind == Token::Kind::Name && peek(1).is(":")) {
      label(f, scope);
    } else {
      statement(f, scope);
    }
  }
}

void BodyParser::statement(Function& f, int scope) {
  Statement s;
  s.line = peek().line;
  s.location = location_;
  s.scope = scope;
  s.used_bytes = std::exchange(used_bytes_, all_bytes);
  if (accept("@")) {
    s.guard_negated = accept("!");
    s.guard = expect_name("a predicate");
  }
  s.opcode = expect_name("an instruction");
  if (!peek().is(";")) {
    do
      s.operands.push_back(operand(0));
    while (accept(","));
  }
  expect(";");
  f.body.push_back(std::move(s));
}

Operand BodyParser::operand(int depth) {
  if (depth > 8) fail(peek().line, "operands nest too deeply");
  Operand o = simple_operand(depth);
  if (accept("|")) {
    Operand pair;
    pair.kind = Operand::Kind::Pair;
    pair.parts.push_back(std::move(o));
    pair.parts.push_back(simple_operand(depth));
    return pair;
  }
  return o;
}

void BodyParser::list(Operand& o, std::string_view close, int depth) {
  if (accept(close)) return;
  do
    o.parts.push_back(operand(depth + 1));
  while (accept(","));
  expect(close);
}

Operand BodyParser::simple_operand(int depth) {
  Operand o;
  const Token& token = peek();
  if (accept("{")) {
    o.kind = Operand::Kind::Vector;
    list(o, "}", depth);
  } else if (accept("[")) {
    o.kind = Operand::Kind::Address;
    list(o, "]", depth);
  } else if (token.is("(") && parenthesised_list()) {
    take();
    o.kind = Operand::Kind::List;
    list(o, ")", depth);
  } else if (token.is("!")) {
    take();
    if (depth > 8) fail(token.line, "operands nest too deeply");
    o = simple_operand(depth + 1);
    o.negated = !o.negated;
  } else if (token.kind == Token::Kind::Name) {
    take();
    if (token.text == "_") return o;
    o.kind = Operand::Kind::Name;
    o.name = token.text;
    if (peek().is("+") || peek().is("-")) {
      bool minus = take().is("-");
      std::int64_t value = static_cast<std::int64_t>(expect_integer());
      o.offset = minus ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value)) : value;
    }
  } else if (token.kind == Token::Kind::Float32 || token.kind == Token::Kind::Float64 ||
             (token.is("-") &&
              (peek(1).kind == Token::Kind::Float32 || peek(1).kind == Token::Kind::Float64))) {
    bool minus = accept("-");
    const Token& number = take();
    o.kind = number.kind == Token::Kind::Float32 ? Operand::Kind::Float32 : Operand::Kind::Float64;
    o.bits = number.value;
    if (minus) o.bits ^= o.kind == Operand::Kind::Float32 ? std::uint64_t(1) << 31 : std::uint64_t(1) << 63;
  } else {
    std::optional<std::uint64_t> value = expression();
    if (!value) fail(token.line, "expected an operand and found " + shown(token));
    o.kind = Operand::Kind::Integer;
    o.bits = *value;
  }
  return o;
}

// Whether "(" begins the list of a call, which a name or ")" follows, and not an expression.
bool BodyParser::parenthesised_list() const { return peek(1).kind == Token::Kind::Name || peek(1).is(")"); }

} // namespace kiln::emulator::ptx
