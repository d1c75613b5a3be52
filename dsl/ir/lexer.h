// Splits the text of tile IR into words, values, numbers, strings and punctuation.
#pragma once

#include <string>
#include <string_view>

namespace kiln::ir {

struct Token {
  enum class Kind { End, Word, Value, Number, String, Punctuation, Bad };
  Kind kind = Kind::End;
  std::string_view text; // as it is written, but values without their %
  int line = 1, column = 1;
  bool first_on_line = false;

  bool is(char punctuation) const { return kind == Kind::Punctuation && text[0] == punctuation; }
  bool is(std::string_view word) const { return kind == Kind::Word && text == word; }
  std::string describe() const; // "the end of the text", "\"foo\""
};

// Returns one token after the other. A comment extends from // to the end of its line.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool skip_blanks(); // skips blanks and comments; returns whether a new line began
  template <class F> void take_while(F&& belongs);

  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
};

} // namespace kiln::ir
