// Evaluates constant expressions of PTX: integers with the operators of C.
#pragma once

#include "lexer.h"

#include <bit>
#include <optional>

namespace kiln::emulator::ptx {

// The bits of a float literal as a constant of `bits` bits (32 or 64; for others, the literal's own bits).
inline std::uint64_t float_constant(bool is_float32, std::uint64_t literal, int bits) {
  if (is_float32 && bits == 64)
    return std::bit_cast<std::uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(literal))));
  if (!is_float32 && bits == 32)
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(literal)));
  return literal;
}

template <class Peek, class Take, class Fail> class ConstantExpression {
public:
  ConstantExpression(Peek peek, Take take, Fail fail) : peek_(peek), take_(take), fail_(fail) {}
  std::optional<std::uint64_t> run() { return binary(0, 0); }

private:
  static int precedence(const Token& t) {
    if (t.kind != Token::Kind::Punctuation) return -1;
    static constexpr std::pair<std::string_view, int> table[] = {
        {"||", 1}, {"&&", 2}, {"|", -1}, {"^", 4},  {"&", 5}, {"==", 6}, {"!=", 6}, {"<", 7},  {"<=", 7},
        {">", 7},  {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9}, {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};
    for (auto& [text, p] : table) // "|" separates the parts of d|p
      if (t.text == text) return p;
    return -1;
  }

  std::optional<std::uint64_t> binary(int lowest, int depth) {
    std::optional<std::uint64_t> left = unary(depth);
    if (!left) return left;
    for (;;) {
      const Token op = peek_();
      int p = precedence(op);
      if (p < 0 || p < lowest) return left;
      if (op.text == ">" && lowest == 0 && depth == 0) return left; // closes %r<10>
      take_();
      std::optional<std::uint64_t> right = binary(p + 1, depth + 1);
      if (!right) fail_(op.line, "an expression ends too early");
      left = apply(op, *left, *right);
    }
  }

  std::optional<std::uint64_t> unary(int depth) {
    const Token token = peek_();
    if (depth > 64) fail_(token.line, "an expression nests too deeply");
    if (token.kind == Token::Kind::Integer) {
      take_();
      return token.value;
    }
    if (token.kind != Token::Kind::Punctuation) return std::nullopt;
    if (token.text == "-" || token.text == "~" || token.text == "!" || token.text == "+") {
      take_();
      std::optional<std::uint64_t> value = unary(depth + 1);
      if (!value) fail_(token.line, "an expression ends too early");
      return token.text == "-"   ? 0 - *value
             : token.text == "~" ? ~*value
             : token.text == "!" ? !*value
                                 : *value;
    }
    if (token.text == "(") {
      take_();
      std::optional<std::uint64_t> value = binary(0, depth + 1);
      if (!value || peek_().text != ")") fail_(token.line, "expected ')' in an expression");
      take_();
      return value;
    }
    return std::nullopt;
  }

  std::uint64_t apply(const Token& op, std::uint64_t a, std::uint64_t b) {
    const std::int64_t s = static_cast<std::int64_t>(a), t = static_cast<std::int64_t>(b);
    const std::string_view o = op.text;
    if ((o == "/" || o == "%") && b == 0) fail_(op.line, "a division by zero");
    if (o == "/") return t == -1 ? 0 - a : static_cast<std::uint64_t>(s / t);
    if (o == "%") return t == -1 ? 0 : static_cast<std::uint64_t>(s % t);
    if (o == "+") return a + b;
    if (o == "-") return a - b;
    if (o == "*") return a * b;
    if (o == "<<") return b < 64 ? a << b : 0;
    if (o == ">>") return b < 64 ? static_cast<std::uint64_t>(s >> b) : 0;
    if (o == "&") return a & b;
    if (o == "^") return a ^ b;
    if (o == "&&") return a && b;
    if (o == "||") return a || b;
    if (o == "==") return a == b;
    if (o == "!=") return a != b;
    if (o == "<") return s < t;
    if (o == "<=") return s <= t;
    if (o == ">") return s > t;
    return s >= t;
  }

  Peek peek_;
  Take take_;
  Fail fail_;
};

// Returns nullopt if no expression starts here.
template <class Peek, class Take, class Fail>
std::optional<std::uint64_t> constant_expression(Peek peek, Take take, Fail fail) {
  return ConstantExpression<Peek, Take, Fail>(peek, take, fail).run();
}

} // namespace kiln::emulator::ptx
