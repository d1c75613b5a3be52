// What ops check of their arguments before anything runs. The errors name the op and its caller's line.
#pragma once

#include <kiln/jit/runtime/assign/overlap.h>
#include <kiln/ops/detail/stream_at.h>

#include <string>

namespace kiln::ops::detail {

// An argument with its name.
struct Argument {
  const char* name;
  kiln::detail::StridedArray array;
};

class Checks {
public:
  Checks(const char* op, const StreamAt& at); // "ops::matmul"

  // "a's columns and b's rows" are equal.
  void equal(const char* what, std::int64_t left, std::int64_t right) const;
  // Every index of what is written is an element of its own.
  void writes(const Argument& out) const;
  // What is written shares no memory with what is read meanwhile.
  void apart(const Argument& out, const Argument& in) const;
  // The same, unless both are one tensor.
  void apart_or_same(const Argument& out, const Argument& in) const;

private:
  [[noreturn]] void refuse(const std::string& what) const;

  const char* op_;
  SourceLocation site_;
};

} // namespace kiln::ops::detail
