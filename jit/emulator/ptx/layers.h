// Declares the layers of the parser: variables, the bodies of functions, and (in parser.cpp) whole modules.
#pragma once

#include "cursor.h"

#include <array>

namespace kiln::emulator::ptx {

class VariableParser : protected Cursor { // variables.cpp
protected:
  using Cursor::Cursor;
  std::optional<Space> accept_space();
  // Parses what follows the state space: .align, .type, .vN, and names with dimensions and initial values.
  std::vector<Variable> variables(Space space, bool external);
  void parameters(std::vector<Variable>& to, bool registers);

private:
  void initial(Variable& v, int bytes, int depth);
};

// Statements and operands are in statements.cpp, directives in directives.cpp.
class BodyParser : protected VariableParser {
protected:
  using VariableParser::VariableParser;
  void body(Function& f, int scope, int depth); // up to and including the closing brace
  void pragma();
  void file();
  int location(); // parses .loc and returns its index in Module::locations

private:
  void variables_of(Function& f, int scope);
  void label(Function& f, int scope);
  void registers(Function& f, int scope);
  Scope::Names names(const char* what);
  Prototype prototype();
  void statement(Function& f, int scope);
  Operand operand(int depth);
  Operand simple_operand(int depth);
  void list(Operand& o, std::string_view close, int depth);
  bool parenthesised_list() const;

  int location_ = -1;
  std::map<std::array<int, 3>, int> places_; // the last .loc of each file, line and column in this function
  std::uint32_t used_bytes_ = all_bytes;     // for the next statement
  std::uint64_t total_registers_ = 0;
};

} // namespace kiln::emulator::ptx
