// Defines the exceptions that Kiln throws: one class for each party that can be at fault.
#pragma once

#include <kiln/dsl/api.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

KILN_API_BEGIN
namespace kiln {

// A line of the user's source. `file` is a string literal or interned, so it stays valid until the process
// ends.
struct SourceLocation {
  const char* file = nullptr;
  int line = 0;
  SourceLocation() = default;
  SourceLocation(const char* file_name, int line_number) : file(file_name), line(line_number) {}
  SourceLocation(const std::source_location& l) : file(l.file_name()), line(static_cast<int>(l.line())) {}
  explicit operator bool() const { return file != nullptr; }
  bool operator==(const SourceLocation&) const = default;
};
// Returns "file.cpp:12", or "" if the location is unknown.
std::string to_string(const SourceLocation& location);

// The base of all exceptions of Kiln.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// Reports a mistake of the user. The message is one line with four parts: where (file and line of the user's
// code), what was wrong, with which values, and what to do.
class UserError : public Error {
public:
  using Error::Error;
  UserError(const SourceLocation& where, std::string_view what);
};

// Reports that the driver, the operating system or a tool such as ptxas refused a request. The message
// contains its log.
class TargetError : public Error {
public:
  using Error::Error;
};

// Reports a bug in Kiln. If the bug concerns a kernel, the message contains its IR.
class InternalError : public Error {
public:
  using Error::Error;
};

// Throws an InternalError that names the calling line of Kiln's source.
[[noreturn]] void internal_error(std::string_view what,
                                 std::source_location here = std::source_location::current());
// Throws an InternalError unless `ok`.
inline void internal_check(bool ok, std::string_view what,
                           std::source_location here = std::source_location::current()) {
  if (!ok) internal_error(what, here);
}
// Throws an InternalError unless `ok`. `what` is a function that returns the text; it is called only if the
// check fails.
template <class F>
  requires std::is_invocable_v<F&>
void internal_check(bool ok, F&& what, std::source_location here = std::source_location::current()) {
  if (!ok) internal_error(what(), here);
}

} // namespace kiln
KILN_API_END
