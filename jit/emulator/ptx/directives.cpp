// Parses directives of a function: variables, registers, labels, source locations and pragmas.
#include "layers.h"

#include <charconv>

namespace kiln::emulator::ptx {

// Only one pragma has an effect: "used_bytes_mask 0xfff", before a load of which only some bytes are used.
void BodyParser::pragma() {
  constexpr std::string_view mask = "used_bytes_mask ";
  do {
    const Token& token = expect(Token::Kind::String, "a string");
    if (!token.text.starts_with(mask)) continue;
    std::string_view digits = token.text.substr(mask.size());
    const bool hexadecimal = digits.starts_with("0x");
    if (hexadecimal) digits.remove_prefix(2);
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, used_bytes_, hexadecimal ? 16 : 10);
    if (at != end || error != std::errc()) fail(token.line, shown(token) + " lacks a number of 32 bits");
  } while (accept(","));
  expect(";");
}

void BodyParser::file() {
  expect(".file");
  int index = static_cast<int>(expect_integer(0, 1 << 24, "the index of a file"));
  module_->files[index] = std::string(expect(Token::Kind::String, "a file name").text);
  while (accept(","))
    expect_integer(); // time stamp, size
}

// .loc file line column[, function_name label[+n], inlined_at file line column]
// The location after inlined_at is an earlier .loc, which may be inlined itself.
int BodyParser::location() {
  expect(".loc");
  auto place = [&] {
    Location l;
    l.file = static_cast<int>(expect(Token::Kind::Integer, "a file's index").value);
    l.line = static_cast<int>(expect(Token::Kind::Integer, "a line").value);
    l.column = static_cast<int>(expect(Token::Kind::Integer, "a column").value);
    return l;
  };
  Location here = place();
  while (accept(",")) {
    std::string_view what = expect_name("function_name or inlined_at");
    if (what == "function_name") {
      expect_name("a label");
      if (accept("+")) expect_integer();
    } else if (what == "inlined_at") {
      const Location at = place();
      const auto known = places_.find({at.file, at.line, at.column});
      if (known != places_.end()) {
        here.inlined_at = known->second;
        continue;
      }
      module_->locations.push_back(at);
      here.inlined_at = static_cast<int>(module_->locations.size()) - 1;
    } else {
      fail(peek().line, "'" + std::string(what) + "' has no place in .loc");
    }
  }
  module_->locations.push_back(here);
  const int number = static_cast<int>(module_->locations.size()) - 1;
  places_[{here.file, here.line, here.column}] = number;
  return number;
}

void BodyParser::variables_of(Function& f, int scope) {
  const Token& token = peek();
  std::optional<Space> space = accept_space();
  if (!space) {
    bool external = accept(".extern");
    accept(".visible");
    space = accept_space();
    if (!space || (external && *space != Space::Shared))
      fail(token.line, "the directive " + shown(token) + " is not known in a function");
  }
  for (Variable& v : variables(*space, false)) {
    v.scope = scope;
    if (v.space == Space::Global || v.space == Space::Const)
      fail(v.line, "the variable " + std::string(v.name) + " must stand outside of the function");
    auto [at, fresh] =
        f.scopes[static_cast<std::size_t>(scope)].variables.try_emplace(v.name, f.variables.size());
    if (!fresh) {
      // `.param .b32 retval0;` may be declared again in the same block
      if (v.space != Space::Param) fail(v.line, "the variable " + std::string(v.name) + " is defined twice");
      at->second = f.variables.size();
    }
    f.variables.push_back(std::move(v));
  }
  expect(";");
}

// A label in the code, or the name of a list of labels or functions, or of a prototype.
void BodyParser::label(Function& f, int scope) {
  const Token& token = peek();
  Scope& here = f.scopes[static_cast<std::size_t>(scope)];
  std::string_view label = take().text;
  take();
  if (accept(".branchtargets")) {
    here.branch_targets[label] = names("a label");
  } else if (accept(".calltargets")) {
    here.call_targets[label] = names("a function");
  } else if (accept(".callprototype")) {
    here.prototypes[label] = prototype();
  } else if (!here.labels.try_emplace(label, f.body.size()).second) {
    fail(token.line, "the label " + std::string(label) + " is defined twice");
  }
}

Scope::Names BodyParser::names(const char* what) {
  Scope::Names all;
  do
    all.push_back(expect_name(what));
  while (accept(","));
  expect(";");
  return all;
}

// .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn;
Prototype BodyParser::prototype() {
  Prototype p;
  if (accept("(")) {
    parameters(p.returns, true);
    expect(")");
  }
  expect_name("_");
  if (accept("(")) {
    parameters(p.params, true);
    expect(")");
  }
  while (accept(".noreturn") || accept(".abi_preserve") || accept(".abi_preserve_control"))
    expression();
  expect(";");
  return p;
}

void BodyParser::registers(Function& f, int scope) {
  int line = expect(".reg").line;
  Type type = Type::None;
  while (peek().kind == Token::Kind::Directive) {
    const Token& token = take();
    type = type_named(token.text.substr(1));
    if (type == Type::None) fail(token.line, "the register type " + shown(token) + " is not known");
  }
  if (type == Type::None) fail(line, "these registers have no type");
  Scope& here = f.scopes[static_cast<std::size_t>(scope)];
  do {
    std::string_view name = expect_name("a register's name");
    bool fresh;
    if (accept("<")) {
      std::uint64_t count = expect_integer(0, 1 << 22, "a number of registers");
      expect(">");
      total_registers_ += count;
      fresh = here.ranges.try_emplace(name, f.ranges.size()).second;
      f.ranges.push_back({name, type, static_cast<std::uint32_t>(count), scope});
    } else {
      ++total_registers_;
      fresh = here.registers.try_emplace(name, f.registers.size()).second;
      f.registers.push_back({name, type, scope});
    }
    if (!fresh) fail(line, "the register " + std::string(name) + " is declared twice");
    if (total_registers_ > 1 << 22) fail(line, "more than 4 million registers");
  } while (accept(","));
  expect(";");
}

} // namespace kiln::emulator::ptx
