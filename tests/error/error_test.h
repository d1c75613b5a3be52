// Tests of errors match the whole text; the places in it are lines of the test itself.
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

// The text of what `call` throws as a UserError.
template <class F> std::string error_of(const F& call) {
  try {
    call();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

} // namespace kiln::test

// "file:line" of the line it stands on, plus an offset. The call whose error names that line stands outside
// of CHECK and REQUIRE if they go over several lines: clang gives it the line of their closing parenthesis.
#define KILN_HERE(OFFSET) kiln::test::place(__FILE__, __LINE__ + (OFFSET))
