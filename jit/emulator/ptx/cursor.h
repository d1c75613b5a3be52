// Defines a position in a module's tokens, with the helpers that all parts of the parser use.
#pragma once

#include "ast.h"
#include "expression.h"
#include "lexer.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace kiln::emulator::ptx {

class Cursor {
protected:
  Cursor(std::string text, std::string name) : module_(std::make_unique<Module>()) {
    module_->text = std::move(text);
    module_->name = std::move(name);
    tokens_ = tokenize(module_->text, module_->name);
  }

  [[noreturn]] void fail(int line, const std::string& what) const { refuse(module_->name, line, what); }

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

  // Skips a parenthesised list of any tokens.
  void skip_parentheses() {
    int line = expect("(").line;
    while (!accept(")")) {
      if (peek().kind == Token::Kind::End) fail(line, "this '(' is never closed");
      take();
    }
  }

  std::unique_ptr<Module> module_;

private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

} // namespace kiln::emulator::ptx
