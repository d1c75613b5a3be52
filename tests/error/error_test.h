// Helps tests of errors, which compare the whole text: it contains file and line of the test itself.
#pragma once

#include <kiln/kiln.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace kiln::test {

inline std::string place(const char* file, int line) {
  return std::string(file) + ":" + std::to_string(line);
}

// The text of the UserError that `call` throws, or "no error".
template <class F> std::string error_of(const F& call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

} // namespace kiln::test

// "file:line" of the current line plus an offset. A call whose error names a line must not be inside a CHECK
// or REQUIRE of several lines, because clang reports the line of the closing parenthesis there.
#define KILN_HERE(OFFSET) kiln::test::place(__FILE__, __LINE__ + (OFFSET))
