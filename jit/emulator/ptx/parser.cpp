// Parses the top level of a module, by recursive descent over the tokens.
//
// Registers, labels and variables of a nested { } are visible only in it, and labels may be used before they
// are defined. So names stay text here, and the decoder looks them up through the scopes.
#include "parser.h"

#include "layers.h"

namespace kiln::emulator::ptx {
namespace {

class Parser : BodyParser {
public:
  Parser(std::string text, std::string name) : BodyParser(std::move(text), std::move(name)) {}

  std::unique_ptr<Module> run() {
    while (peek().kind != Token::Kind::End)
      top_level();
    if (!module_->version)
      fail(1, "there is no .version: a PTX module starts with .version, .target and .address_size");
    if (module_->target.empty()) fail(1, "there is no .target");
    return std::move(module_);
  }

private:
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
        skip_parentheses();
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
};

} // namespace

std::unique_ptr<Module> parse(std::string text, std::string name) {
  return Parser(std::move(text), std::move(name)).run();
}

} // namespace kiln::emulator::ptx
