// Implements the lexer: names, directives, numbers, strings, punctuation and comments.
#include "lexer.h"

#include <bit>
#include <cstdlib>
#include <kiln/dsl/error.h>

namespace kiln::emulator::ptx {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return (is_letter(c) && c != '%') || is_digit(c); }

int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 32) - 'a' + 10; }

class Lexer {
public:
  Lexer(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4);
    for (;;) {
      skip_space();
      tokens.push_back(next());
      if (tokens.back().kind == Token::Kind::End) return tokens;
    }
  }

private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  void skip_space() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else if (c == '/' && at(at_ + 1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n')
          ++at_;
      } else if (c == '/' && at(at_ + 1) == '*') {
        int start = line_;
        std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) refuse(name_, start, "this comment does not end");
        for (; at_ < end + 2; ++at_)
          line_ += text_[at_] == '\n';
      } else if (c == '\0' && at_ + 1 == text_.size()) {
        ++at_; // texts often include a terminating zero
      } else {
        return;
      }
    }
  }

  Token make(Token::Kind kind, std::size_t begin, std::size_t end, std::uint64_t value = 0) {
    at_ = end;
    return {kind, line_, text_.substr(begin, end - begin), value};
  }

  Token next() {
    const std::size_t begin = at_;
    if (begin >= text_.size()) return {Token::Kind::End, line_, {}, 0};
    const char c = text_[begin];
    if (is_letter(c)) return name(begin);
    if (is_digit(c)) return number(begin);
    if (c == '.') {
      if (is_digit(at(begin + 1))) return number(begin);
      std::size_t end = begin + 1;
      while (is_word(at(end)))
        ++end;
      if (end == begin + 1) refuse(name_, line_, "a lone '.'");
      while (at(end) == ':' && at(end + 1) == ':' && is_word(at(end + 2)))
        for (end += 2; is_word(at(end));)
          ++end;
      return make(Token::Kind::Directive, begin, end);
    }
    if (c == '"') {
      std::size_t end = begin + 1;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
        end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
      if (at(end) != '"') refuse(name_, line_, "this string does not end");
      Token token = make(Token::Kind::String, begin + 1, end);
      ++at_;
      return token;
    }
    for (const char* two : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"})
      if (c == two[0] && at(begin + 1) == two[1]) return make(Token::Kind::Punctuation, begin, begin + 2);
    if (std::string_view("{}[]()<>,;:|@!+-*/%&^~?=#").find(c) != std::string_view::npos)
      return make(Token::Kind::Punctuation, begin, begin + 1);
    const unsigned byte = static_cast<unsigned char>(c);
    refuse(name_, line_,
           byte >= 32 && byte < 127 ? std::string("the character '") + c + "' has no place in PTX"
                                    : "byte " + std::to_string(byte) + " has no place in PTX");
  }

  // ld.shared::cta.v4.b32, %tid.x, $L__BB0_1
  Token name(std::size_t begin) {
    std::size_t end = begin + 1;
    for (;;) {
      if (is_word(at(end)))
        ++end;
      else if (at(end) == '.' && is_word(at(end + 1)))
        end += 2;
      else if (at(end) == ':' && at(end + 1) == ':' && is_word(at(end + 2)))
        end += 3;
      else
        break;
    }
    if (end == begin + 1 && at(begin) == '%') return make(Token::Kind::Punctuation, begin, end);
    return make(Token::Kind::Name, begin, end);
  }

  Token number(std::size_t begin) {
    const char kind = at(begin) == '0' ? static_cast<char>(at(begin + 1) | 32) : '\0';
    if (kind == 'f' || kind == 'd') {
      const std::size_t digits = kind == 'f' ? 8 : 16;
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < digits; ++i) {
        if (!is_hex(at(begin + 2 + i)))
          refuse(name_, line_,
                 "a float of the form 0" + std::string(1, kind) + " has " + std::to_string(digits) +
                     " hexadecimal digits");
        bits = bits << 4 | static_cast<unsigned>(hex_value(text_[begin + 2 + i]));
      }
      if (is_word(at(begin + 2 + digits))) refuse(name_, line_, "a number runs into a name");
      return make(kind == 'f' ? Token::Kind::Float32 : Token::Kind::Float64, begin, begin + 2 + digits, bits);
    }
    std::size_t end = begin;
    int base = 10;
    if (kind == 'x' || kind == 'b') {
      base = kind == 'x' ? 16 : 2;
      end += 2;
    }
    std::size_t first = end;
    while (base == 16 ? is_hex(at(end)) : is_digit(at(end)))
      ++end;
    if (base == 10 && (at(end) == '.' || (at(end) | 32) == 'e')) { // a decimal float
      std::size_t stop = end;
      if (at(stop) == '.') ++stop;
      while (is_digit(at(stop)))
        ++stop;
      if ((at(stop) | 32) == 'e') {
        std::size_t exponent = stop + 1;
        if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
        if (!is_digit(at(exponent))) refuse(name_, line_, "a number runs into a name");
        for (stop = exponent; is_digit(at(stop));)
          ++stop;
      }
      const double value = std::strtod(std::string(text_.substr(begin, stop - begin)).c_str(), nullptr);
      return make(Token::Kind::Float64, begin, stop, std::bit_cast<std::uint64_t>(value));
    }
    if (base == 10 && at(begin) == '0' && end > begin + 1) base = 8;
    if (first == end) refuse(name_, line_, "a number without digits");
    std::uint64_t value = 0;
    for (std::size_t i = first; i < end; ++i) {
      const unsigned digit = static_cast<unsigned>(hex_value(text_[i]));
      if (digit >= static_cast<unsigned>(base)) refuse(name_, line_, "a digit beyond the number's base");
      if (value > (~std::uint64_t(0) - digit) / static_cast<unsigned>(base))
        refuse(name_, line_,
               "the integer " + std::string(text_.substr(begin, end - begin)) + " has more than 64 bits");
      value = value * static_cast<unsigned>(base) + digit;
    }
    if (at(end) == 'U') ++end;
    if (is_word(at(end))) refuse(name_, line_, "a number runs into a name");
    return make(Token::Kind::Integer, begin, end, value);
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
  int line_ = 1;
};

} // namespace

void refuse(std::string_view name, int line, const std::string& what) {
  throw UserError(std::string(name) + ":" + std::to_string(line) + ": " + what);
}

std::vector<Token> tokenize(std::string_view text, std::string_view name) { return Lexer(text, name).run(); }

} // namespace kiln::emulator::ptx
