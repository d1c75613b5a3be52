// Checks the arguments of ops before anything runs. The errors name the op and the line of the call.
#pragma once

#include <kiln/jit/runtime/assign/overlap.h>
#include <kiln/ops/activation.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

#include <string>

namespace kiln::ops::detail {

// An argument of an op with its name.
struct Argument {
  const char* name;
  const Array& array;
};

// Each check throws a UserError if it fails.
class Checks {
public:
  struct Parts {
    const char *first, *second, *third, *fourth;
  };

  Checks(const char* op, const StreamAt& at); // op: "ops::matmul"

  // Check that a tensor is of floats, that it has at least `rank` axes (and at most 8), and both.
  void floats(const Argument& argument) const;
  void rank_at_least(const Argument& argument, int rank) const;
  void tensor(const Argument& argument, int rank) const {
    rank_at_least(argument, rank);
    floats(argument);
  }
  // Checks that a tensor is of i32 or i64.
  void integers(const Argument& argument) const;
  // Checks that a tensor has exactly `rank` axes.
  void rank(const Argument& argument, int rank) const;
  // Checks that the value is one of the enumeration.
  void activation(Activation activation) const;
  // Checks a condition of the op's own; `mistake` says what is wrong and what to do.
  void that(bool right, const char* mistake) const;
  // Checks that two tensors have the same rank and extents.
  void same_extents(const Argument& a, const Argument& b) const;
  // Checks that `in` has no axes that `out` lacks, and that each of its extents is 1 or that of `out`. `what`
  // precedes the name of `in` in the error: "the batch axes of ".
  void broadcasts(const Argument& in, const Argument& out, const char* what = "") const;
  // Checks the number of an axis of a tensor, which may be negative.
  void axis(const Argument& argument, int axis) const;
  // Checks that two extents are equal. what: "a's columns and b's rows".
  void equal(const char* what, std::int64_t left, std::int64_t right) const {
    equal({what, "", "", ""}, left, right);
  }
  // The same with `what` in four parts.
  void equal(const Parts& what, std::int64_t left, std::int64_t right) const;
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
