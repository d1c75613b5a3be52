// Checks the arguments of ops before anything runs. The errors name the op and the line of the call.
#pragma once

#include <kiln/jit/runtime/assign/overlap.h>
#include <kiln/ops/detail/stream_at.h>

#include <string>

namespace kiln::ops::detail {

// An argument of an op with its name.
struct Argument {
  const char* name;
  kiln::detail::StridedArray array;
};

// Each check throws a UserError if it fails.
class Checks {
public:
  Checks(const char* op, const StreamAt& at); // op: "ops::matmul"

  // Checks that two extents are equal. what: "a's columns and b's rows".
  void equal(const char* what, std::int64_t left, std::int64_t right) const;
  // Checks that different indices of the output refer to different elements.
  void writes(const Argument& out) const;
  // Checks that the output does not overlap an input.
  void apart(const Argument& out, const Argument& in) const;
  // Checks that the output does not overlap an input, unless they are the same tensor.
  void apart_or_same(const Argument& out, const Argument& in) const;

private:
  [[noreturn]] void refuse(const std::string& what) const;

  const char* op_;
  SourceLocation site_;
};

} // namespace kiln::ops::detail
