// From PTX text to a ptx::Module: recursive descent over the tokens.
//
// Registers, labels and variables of a nested { } are visible in it only, and labels may be used before they
// are defined, so names stay text here: the decoder looks them up through the scopes.
#include "parser.h"

#include "expression.h"
#include "lexer.h"

#include <algorithm>
#include <optional>

namespace kiln::emulator::ptx {
namespace {

constexpr std::uint64_t largest_variable = std::uint64_t(1) << 32;
constexpr int deepest_nesting = 64;

class Parser {
public:
  Parser(std::string text, std::string name) : module_(std::make_unique<Module>()) {
    module_->text = std::move(text);
    module_->name = std::move(name);
    tokens_ = tokenize(module_->text, module_->name);
  }

  std::unique_ptr<Module> run() {
    while (peek().kind != Token::Kind::End)
      top_level();
    if (!module_->version)
      fail(1, "there is no .version: a PTX module starts with .version, .target and .address_size");
    if (module_->target.empty()) fail(1, "there is no .target");
    return std::move(module_);
  }

private:
  [[noreturn]] void fail(int line, const std::string& what) { refuse(module_->name, line, what); }

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool accept(std::string_view text) {
    if (!peek().is(text)) return false;
    take();
    return true;
  }
  static std::string shown(const Token& token) {
    if (token.kind == Token::Kind::End) return "the end of the text";
    std::string text(token.text.substr(0, 40));
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
    return "'" + text + "'";
  }
  const Token& expect(std::string_view text) {
    if (!peek().is(text))
      fail(peek().line, "expected '" + std::string(text) + "' and found " + shown(peek()));
    return take();
  }
  const Token& expect(Token::Kind kind, const char* what) {
    if (peek().kind != kind)
      fail(peek().line, std::string("expected ") + what + " and found " + shown(peek()));
    return take();
  }
  std::string_view expect_name(const char* what) {
    std::string_view name = expect(Token::Kind::Name, what).text;
    return name;
  }
  std::uint64_t expect_integer() {
    int line = peek().line;
    std::optional<std::uint64_t> value = expression();
    if (!value) fail(line, "expected an integer and found " + shown(peek()));
    return *value;
  }
  std::uint64_t expect_integer(std::uint64_t low, std::uint64_t high, const char* what) {
    int line = peek().line;
    const bool minus = peek().is("-");
    std::uint64_t value = expect_integer();
    if (value < low || value > high)
      fail(line, std::string(what) + " is " + (minus ? "-" : "") + std::to_string(minus ? 0 - value : value) +
                     ", and can be " + std::to_string(low) + " to " + std::to_string(high));
    return value;
  }

  std::optional<std::uint64_t> expression() {
    return constant_expression([&]() -> const Token& { return peek(); }, [&] { take(); },
                               [&](int line, const std::string& what) { fail(line, what); });
  }

  void top_level() {
    const Token& token = peek();
    if (token.is(";")) {
      take();
      return;
    }
    if (token.kind != Token::Kind::Directive)
      fail(token.line, shown(token) + " stands outside of a function");
    if (accept(".version")) {
      const Token& number = take();
      std::string text(number.text);
      std::size_t dot = text.find('.');
      if (number.kind != Token::Kind::Float64 || dot == std::string::npos || dot > 2 ||
          dot + 2 > text.size() || dot == 0)
        fail(number.line, "the version " + shown(number) + " is not of the form 8.3");
      module_->version = std::atoi(text.substr(0, dot).c_str()) * 10 + (text[dot + 1] - '0');
      if (module_->version < 30 || module_->version > 99)
        fail(number.line, "PTX " + text + " is not known; versions 6.0 to 9.x are");
    } else if (accept(".target")) {
      module_->target = expect_name("a target such as sm_80");
      while (accept(","))
        if (std::string_view option = expect_name("a target option");
            option != "debug" && option != "texmode_independent" && option != "texmode_unified" &&
            option != "map_f64_to_f32")
          fail(peek().line, "the target option " + std::string(option) + " is not known");
    } else if (accept(".address_size")) {
      int line = peek().line;
      if (std::uint64_t size = expect_integer(); size != 64)
        fail(line, "addresses of " + std::to_string(size) + " bits are not supported; compile for 64");
    } else if (token.is(".file")) {
      file();
    } else if (token.is(".loc")) {
      location();
    } else if (accept(".section")) {
      if (peek().kind == Token::Kind::Directive || peek().kind == Token::Kind::Name) take();
      skip_braces();
    } else if (accept(".pragma")) {
      pragma();
    } else {
      declaration();
    }
  }

  void pragma() {
    expect(Token::Kind::String, "a string");
    while (accept(","))
      expect(Token::Kind::String, "a string");
    expect(";");
  }

  void file() {
    expect(".file");
    int index = static_cast<int>(expect_integer(0, 1 << 24, "the index of a file"));
    module_->files[index] = std::string(expect(Token::Kind::String, "a file name").text);
    while (accept(","))
      expect_integer(); // time stamp, size
  }

  // .loc file line column[, function_name label[+n], inlined_at file line column]
  int location() {
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
        module_->locations.push_back(place());
        here.inlined_at = static_cast<int>(module_->locations.size()) - 1;
      } else {
        fail(peek().line, "'" + std::string(what) + "' has no place in .loc");
      }
    }
    module_->locations.push_back(here);
    return static_cast<int>(module_->locations.size()) - 1;
  }

  void skip_braces() {
    int line = expect("{").line;
    for (int depth = 1; depth > 0;) {
      if (peek().kind == Token::Kind::End) fail(line, "this '{' is never closed");
      const Token& token = take();
      depth += token.is("{");
      depth -= token.is("}");
    }
  }

  // Linkage, then a variable or a function.
  void declaration() {
    bool external = false;
    for (;;) {
      if (accept(".extern")) {
        external = true;
      } else if (accept(".visible") || accept(".weak") || accept(".common")) {
      } else {
        break;
      }
    }
    const Token& token = peek();
    if (token.is(".entry") || token.is(".func")) {
      function();
    } else if (std::optional<Space> space = accept_space()) {
      for (Variable& v : variables(*space, external)) {
        if (*space == Space::Param || *space == Space::Local)
          fail(v.line, "a variable outside of functions is in .global, .const or .shared");
        auto [at, fresh] = module_->variable_named.try_emplace(v.name, module_->variables.size());
        if (!fresh) {
          Variable& before = module_->variables[at->second];
          if (!before.external && !v.external)
            fail(v.line, "the variable " + std::string(v.name) + " is defined twice");
          if (before.external) before = std::move(v);
        } else {
          module_->variables.push_back(std::move(v));
        }
      }
      expect(";");
    } else if (token.is(".alias") || token.is(".tex") || token.is(".reg")) {
      fail(token.line, "the directive " + std::string(token.text) + " is not supported here");
    } else {
      fail(token.line, "the directive " + shown(token) + " is not known");
    }
  }

  std::optional<Space> accept_space() {
    static constexpr std::pair<std::string_view, Space> spaces[] = {
        {".global", Space::Global},      {".const", Space::Const}, {".shared", Space::Shared},
        {".shared::cta", Space::Shared}, {".local", Space::Local}, {".param", Space::Param}};
    for (auto& [name, space] : spaces)
      if (accept(name)) return space;
    return std::nullopt;
  }

  // After the space: .align, .type, .vN, names with dimensions and initial values.
  std::vector<Variable> variables(Space space, bool external) {
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
        if (!pointer) { // of what a parameter points at, otherwise
          common.align = align;
          has_align = true;
        }
      } else if (accept(".v2")) {
        vector = 2;
      } else if (accept(".v4")) {
        vector = 4;
      } else if (accept(".attribute")) {
        expect("(");
        while (!accept(")")) {
          if (peek().kind == Token::Kind::End) fail(token.line, "this '(' is never closed");
          take();
        }
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

  void initial(Variable& v, int bytes, int depth) {
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

  static std::uint64_t float_bits(const Token& token, Type type, bool minus);

  // .entry or .func
  void function() {
    Function f;
    f.line = peek().line;
    f.entry = take().is(".entry");
    f.scopes.emplace_back();
    accept(".noreturn");
    if (!f.entry && accept("(")) {
      parameters(f.returns, true);
      expect(")");
    }
    f.name = expect_name("a function's name");
    if (accept("(")) {
      parameters(f.params, !f.entry);
      expect(")");
    }
    for (;;) {
      const Token& token = peek();
      auto three = [&](std::uint32_t* to) {
        for (int i = 0; i < 3; ++i)
          to[i] = 1;
        int i = 0;
        do {
          if (i == 3) fail(token.line, std::string(token.text) + " takes up to three numbers");
          to[i++] = static_cast<std::uint32_t>(expect_integer(1, 1u << 31, "a number of threads"));
        } while (accept(","));
      };
      if (accept(".maxntid")) {
        three(f.maximum_threads);
      } else if (accept(".reqntid")) {
        three(f.required_threads);
      } else if (accept(".reqnctapercluster")) {
        three(f.cluster);
      } else if (accept(".maxnreg")) {
        f.registers_per_thread = static_cast<std::uint32_t>(expect_integer(1, 1024, "a number of registers"));
      } else if (accept(".minnctapersm") || accept(".maxnctapersm") || accept(".maxclusterrank") ||
                 accept(".abi_preserve") || accept(".abi_preserve_control")) {
        expect_integer();
      } else if (accept(".noreturn") || accept(".explicitcluster") || accept(".blocksareclusters")) {
      } else if (accept(".pragma")) {
        pragma();
      } else if (accept(".attribute")) {
        expect("(");
        while (!accept(")")) {
          if (peek().kind == Token::Kind::End) fail(token.line, "this '(' is never closed");
          take();
        }
      } else {
        break;
      }
    }
    if (accept(";")) {
      declare(std::move(f));
      return;
    }
    f.defined = true;
    expect("{");
    body(f, 0, 0);
    declare(std::move(f));
  }

  void declare(Function f) {
    auto [at, fresh] = module_->function_named.try_emplace(f.name, module_->functions.size());
    if (fresh) {
      module_->functions.push_back(std::move(f));
      return;
    }
    Function& before = module_->functions[at->second];
    if (before.defined && f.defined)
      fail(f.line, "the function " + std::string(f.name) + " is defined twice");
    if (f.defined) before = std::move(f);
  }

  void parameters(std::vector<Variable>& to, bool registers) {
    if (peek().is(")")) return;
    do {
      if (registers && accept(".reg")) fail(peek().line, "register parameters are not supported; use .param");
      expect(".param");
      for (Variable& v : variables(Space::Param, false))
        to.push_back(std::move(v));
    } while (accept(","));
  }

  // Statements up to the closing brace, which is taken.
  void body(Function& f, int scope, int depth) {
    int line = peek().line;
    if (depth > deepest_nesting) fail(line, "blocks nest too deeply");
    auto here = [&]() -> Scope& { return f.scopes[static_cast<std::size_t>(scope)]; };
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
          auto [at, fresh] = here().variables.try_emplace(v.name, f.variables.size());
          if (!fresh) {
            // `.param .b32 retval0;` once more in the same block
            if (v.space != Space::Param)
              fail(v.line, "the variable " + std::string(v.name) + " is defined twice");
            at->second = f.variables.size();
          }
          f.variables.push_back(std::move(v));
        }
        expect(";");
      } else if (token.kind == Token::Kind::Name && peek(1).is(":")) {
        std::string_view label = take().text;
        take();
        if (accept(".branchtargets")) {
          here().branch_targets[label] = names("a label");
        } else if (accept(".calltargets")) {
          here().call_targets[label] = names("a function");
        } else if (accept(".callprototype")) {
          here().prototypes[label] = prototype();
        } else if (!here().labels.try_emplace(label, f.body.size()).second) {
          fail(token.line, "the label " + std::string(label) + " is defined twice");
        }
      } else {
        statement(f, scope);
      }
    }
  }

  Scope::Names names(const char* what) {
    Scope::Names all;
    do
      all.push_back(expect_name(what));
    while (accept(","));
    expect(";");
    return all;
  }

  // .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn;
  Prototype prototype() {
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

  void registers(Function& f, int scope) {
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

  void statement(Function& f, int scope) {
    Statement s;
    s.line = peek().line;
    s.location = location_;
    s.scope = scope;
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

  Operand operand(int depth) {
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

  void list(Operand& o, std::string_view close, int depth) {
    if (accept(close)) return;
    do
      o.parts.push_back(operand(depth + 1));
    while (accept(","));
    expect(close);
  }

  Operand simple_operand(int depth) {
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

  // "(" begins the list of a call if a name follows, an expression otherwise.
  bool parenthesised_list() const { return peek(1).kind == Token::Kind::Name || peek(1).is(")"); }

  std::unique_ptr<Module> module_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int location_ = -1;
  std::uint64_t total_registers_ = 0;
};

std::uint64_t Parser::float_bits(const Token& token, Type type, bool minus) {
  return float_constant(token.kind == Token::Kind::Float32, token.value, bits_of(type)) ^
         (minus ? std::uint64_t(1) << (bits_of(type) - 1) : 0);
}

} // namespace

std::unique_ptr<Module> parse(std::string text, std::string name) {
  return Parser(std::move(text), std::move(name)).run();
}

} // namespace kiln::emulator::ptx
