// The three kinds of error, decided by whose fault it is.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace kiln {

// A place in the user's source; `file` outlives the program (string literal or interned).
struct SourceLocation {
  const char* file = nullptr;
  int line = 0;
  SourceLocation() = default;
  SourceLocation(const char* file_name, int line_number) : file(file_name), line(line_number) {}
  SourceLocation(const std::source_location& l) : file(l.file_name()), line(static_cast<int>(l.line())) {}
  explicit operator bool() const { return file != nullptr; }
  bool operator==(const SourceLocation&) const = default;
};
std::string to_string(const SourceLocation& location); // "file.cpp:12", or "" if unknown

class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// The user's mistake. The message is one line of four parts:
// "where: what was wrong, with which values; what to do", lower case, no exclamation mark.
class UserError : public Error {
public:
  using Error::Error;
  UserError(const SourceLocation& where, std::string_view what);
};

// The driver, the operating system or a target's tool refused: its log is in the message.
class TargetError : public Error {
public:
  using Error::Error;
};

// A bug in Kiln: the message carries the IR that showed it.
class InternalError : public Error {
public:
  using Error::Error;
};

[[noreturn]] void internal_error(std::string_view what,
                                 std::source_location here = std::source_location::current());
inline void internal_check(bool ok, std::string_view what,
                           std::source_location here = std::source_location::current()) {
  if (!ok) internal_error(what, here);
}
// The text is made where it is needed alone: `what()`.
template <class F>
  requires std::is_invocable_v<F&>
void internal_check(bool ok, F&& what, std::source_location here = std::source_location::current()) {
  if (!ok) internal_error(what(), here);
}

} // namespace kiln
