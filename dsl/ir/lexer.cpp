// Implements the lexer of tile IR and the description of tokens in errors.
#include <kiln/dsl/ir/lexer.h>

#include <kiln/dsl/ir/text.h>

namespace kiln::ir {

namespace {
bool is_word_char(char c) { return is_word_start(c) || is_digit(c) || c == '.'; }
} // namespace

std::string Token::describe() const {
  if (kind == Kind::End) return "the end of the text";
  std::string_view shown = text.substr(0, 40);
  std::string readable;
  for (char c : shown)
    readable += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  if (kind == Kind::String) return readable;
  return (kind == Kind::Value ? "\"%" : "\"") + readable + (shown.size() < text.size() ? "...\"" : "\"");
}

template <class F> void Lexer::take_while(F&& belongs) {
  while (at_ < text_.size() && belongs(text_[at_]))
    ++at_;
}

bool Lexer::skip_blanks() {
  bool began = at_ == 0;
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = ++at_;
      began = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      take_while([](char x) { return x != '\n'; });
    } else {
      break;
    }
  }
  return began;
}

Token Lexer::next() {
  Token token;
  token.first_on_line = skip_blanks();
  token.line = line_;
  token.column = static_cast<int>(at_ - line_start_) + 1;
  if (at_ == text_.size()) return token;
  std::size_t start = at_;
  char c = peek();
  if (is_word_start(c)) {
    token.kind = Token::Kind::Word;
    take_while(is_word_char);
  } else if (c == '%' && is_word_char(peek(1))) {
    token.kind = Token::Kind::Value;
    start = ++at_;
    take_while(is_word_char);
  } else if (is_digit(c) || (c == '-' && is_word_char(peek(1)))) {
    token.kind = Token::Kind::Number;
    ++at_;
    char before = c;
    take_while([&](char x) {
      bool exponent_sign = (x == '+' || x == '-') && (before == 'e' || before == 'E');
      before = x;
      return is_word_char(x) || exponent_sign;
    });
  } else if (c == '"') {
    ++at_;
    bool escaped = false, closed = false;
    take_while([&](char x) {
      if (closed || x == '\n') return false;
      closed = x == '"' && !escaped;
      escaped = x == '\\' && !escaped;
      return true;
    });
    token.kind = closed ? Token::Kind::String : Token::Kind::Bad;
  } else {
    bool known = std::string_view("(){}[]<>=,:*/@").find(c) != std::string_view::npos;
    token.kind = known ? Token::Kind::Punctuation : Token::Kind::Bad;
    ++at_;
  }
  token.text = text_.substr(start, at_ - start);
  return token;
}

} // namespace kiln::ir
