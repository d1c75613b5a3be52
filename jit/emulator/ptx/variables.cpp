// Parses variables and parameters, with their initial values.
#include "layers.h"

namespace kiln::emulator::ptx {
namespace {

constexpr std::uint64_t largest_variable = std::uint64_t(1) << 32;

std::uint64_t float_bits(const Token& token, Type type, bool minus) {
  return float_constant(token.kind == Token::Kind::Float32, token.value, bits_of(type)) ^
         (minus ? std::uint64_t(1) << (bits_of(type) - 1) : 0);
}

} // namespace

std::optional<Space> VariableParser::accept_space() {
  static constexpr std::pair<std::string_view, Space> spaces[] = {
      {".global", Space::Global},      {".const", Space::Const}, {".shared", Space::Shared},
      {".shared::cta", Space::Shared}, {".local", Space::Local}, {".param", Space::Param}};
  for (auto& [name, space] : spaces)
    if (accept(name)) return space;
  return std::nullopt;
}

std::vector<Variable> VariableParser::variables(Space space, bool external) {
  Variable common;
  common.space = space;
  common.line = peek().line;
  std::uint64_t vector = 1;
  bool has_align = false, pointer = false;
  for (;;) {
    const Token& token = peek();
    if (accept(".align")) {
      std::uint64_t align = expect_integer(1, 1 << 20, "an alignment");
      if (align & (align - 1))
        fail(token.line, "the alignment " + std::to_string(align) + " is no power of two");
      if (!pointer) { // otherwise it is the alignment of what a parameter points to
        common.align = align;
        has_align = true;
      }
    } else if (accept(".v2")) {
      vector = 2;
    } else if (accept(".v4")) {
      vector = 4;
    } else if (accept(".attribute")) {
      skip_parentheses();
    } else if (accept(".ptr")) {
      pointer = true;
      accept_space();
    } else if (token.kind == Token::Kind::Directive) {
      Type type = type_named(token.text.substr(1));
      if (type == Type::None || type == Type::Pred)
        fail(token.line, "the type or attribute " + shown(token) + " of a variable is not known");
      common.type = type;
      take();
    } else {
      break;
    }
  }
  const std::uint64_t element = static_cast<std::uint64_t>(bits_of(common.type)) / 8 * vector;
  if (!has_align) common.align = std::max<std::uint64_t>(element, 1);
  std::vector<Variable> found;
  do {
    Variable v = common;
    v.line = peek().line;
    v.name = expect_name("a variable's name");
    v.bytes = element;
    if (peek().is("<") && space == Space::Param)
      fail(v.line, "parameterised names are for registers and variables of functions");
    bool sized = true;
    while (accept("[")) {
      if (accept("]")) {
        sized = false;
        continue;
      }
      std::uint64_t count = expect_integer(0, largest_variable, "an array's size");
      expect("]");
      v.bytes *= count;
      if (v.bytes > largest_variable)
        fail(v.line, "the variable " + std::string(v.name) + " has more than 4 GiB");
    }
    if (!sized) v.bytes = 0;
    v.external = external || (!sized && space == Space::Shared);
    if (accept("=")) {
      if (space != Space::Global && space != Space::Const)
        fail(v.line, "only .global and .const variables have initial values");
      initial(v, bits_of(common.type) / 8, 0);
      if (!sized) v.bytes = v.initial.size();
      if (v.initial.size() > v.bytes)
        fail(v.line, "the variable " + std::string(v.name) + " has more initial values than elements");
      sized = true;
    }
    if (!sized && !v.external) fail(v.line, "the array " + std::string(v.name) + " has no size");
    found.push_back(std::move(v));
  } while (space != Space::Param && accept(","));
  return found;
}

void VariableParser::initial(Variable& v, int bytes, int depth) {
  if (depth > 8) fail(v.line, "initial values nest too deeply");
  if (accept("{")) {
    if (accept("}")) return;
    do
      initial(v, bytes, depth + 1);
    while (accept(","));
    expect("}");
    return;
  }
  if (v.initial.size() > largest_variable / 16) fail(v.line, "too many initial values");
  const Token& token = peek();
  auto append = [&](std::uint64_t bits, int count) {
    for (int i = 0; i < count; ++i)
      v.initial.push_back(static_cast<std::uint8_t>(i < 8 ? bits >> (8 * i) : 0));
  };
  bool minus = false;
  if (token.is("-") && (peek(1).kind == Token::Kind::Float32 || peek(1).kind == Token::Kind::Float64)) {
    minus = true;
    take();
  }
  const Token& number = peek();
  if (number.kind == Token::Kind::Float32 || number.kind == Token::Kind::Float64) {
    append(float_bits(number, v.type, minus), bytes);
    take();
    return;
  }
  // sym, sym+4, generic(sym), 0xFF00(sym)
  Relocation relocation;
  relocation.offset = v.initial.size();
  relocation.bytes = bytes;
  bool close = false;
  if (token.kind == Token::Kind::Integer && peek(1).is("(") && peek(2).kind == Token::Kind::Name) {
    relocation.mask = token.value;
    take();
    take();
    close = true;
  }
  if (peek().kind == Token::Kind::Name) {
    int parens = close;
    if (accept("generic")) {
      expect("(");
      ++parens;
    }
    relocation.symbol = expect_name("a variable's name");
    for (; parens > 0; --parens) {
      if (accept("+")) relocation.addend += static_cast<std::int64_t>(expect_integer());
      expect(")");
    }
    if (accept("+"))
      relocation.addend += static_cast<std::int64_t>(expect_integer());
    else if (accept("-"))
      relocation.addend -= static_cast<std::int64_t>(expect_integer());
    v.relocations.push_back(relocation);
    append(0, bytes);
    return;
  }
  append(expect_integer(), bytes);
}

void VariableParser::parameters(std::vector<Variable>& to, bool registers) {
  if (peek().is(")")) return;
  do {
    if (registers && accept(".reg")) fail(peek().line, "register parameters are not supported; use .param");
    expect(".param");
    for (Variable& v : variables(Space::Param, false))
      to.push_back(std::move(v));
  } while (accept(","));
}

} // namespace kiln::emulator::ptx
