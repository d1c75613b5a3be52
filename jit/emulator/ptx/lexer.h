// Splits PTX text into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::emulator::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Name,      // a register, symbol, label, or an opcode with all its modifiers
    Directive, // ".reg"
    Integer,
    Float32, // 0f...
    Float64, // 0d... or decimal
    String,
    Punctuation,
  };
  Kind kind = Kind::End;
  int line = 0;
  std::string_view text;   // part of the source; a string without its quotes
  std::uint64_t value = 0; // of a number: the integer, or the bits of the float
  bool is(std::string_view what) const { return kind != Kind::String && text == what; }
};

// Throws UserError "name:LINE: ..." for text that is not PTX.
std::vector<Token> tokenize(std::string_view text, std::string_view name);

[[noreturn]] void refuse(std::string_view name, int line, const std::string& what);

} // namespace kiln::emulator::ptx
