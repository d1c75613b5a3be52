// Declares algebraic rewrite rules as data, such as "mul(x, 1) -> x", and matches them against tile IR.
//
// A rule is a pattern, an arrow and a replacement, both made of these words:
//
//   mul, add, ...   operations, by their names in dsl/ir/ops.h
//   x y z a         any value; the same letter twice means the same value
//   c d             a constant, or a splat of one
//   s t             a splat
//   0 1 -1 -0 2     that number in the dtype of its place; -0 is 0 in integers
//   ones            the integer with all bits set
//   true false      that constant of bool
//
// The operands of a commutative operation match in either order, unless the second one in the pattern is a
// constant or a number: the canonicaliser moves constants to the right first.
#pragma once

#include <kiln/dsl/ir/semantics.h>

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace kiln::passes {

// The dtypes for which a rule holds. The dtype of x decides or, in a rule without x, that of the first
// letter. An operation on f8e5m2 turns infinities into the largest finite numbers, so that not even x * 1 is
// x.
enum class Holds : std::uint8_t {
  AnyDType, // pointers, too
  Integers,
  IntegersAndBool,
  Bool,
  FloatsButE5M2,
  AllButE5M2,    // integers, bool, and floats but f8e5m2
  FloatsUpToF32, // floats whose operations are computed in f32, f8e5m2 included
};

struct RewriteRule {
  std::string_view text;
  Holds holds;
};
const std::vector<RewriteRule>& rewrite_rules();

// The cell of a constant, or of a splat of one.
std::optional<ir::Cell> constant_of(const ir::Value* v);

// Creates an operation, simplified at once where that is possible, and returns its result.
using MakeOp = std::function<ir::Value*(ir::Opcode, std::vector<ir::Value*>, ir::Type)>;
// Creates a constant of this type: a scalar, or a splat of one.
using MakeConstant = std::function<ir::Value*(const ir::Type&, ir::Cell)>;

// Builds what the first matching rule of the table replaces `op` by; null if no rule matches.
ir::Value* rewrite(const ir::Op& op, const MakeOp& make, const MakeConstant& make_constant);
// Builds what this rule replaces `op` by; null if it does not match, or does not hold for the dtype. Tests
// try each rule by itself.
ir::Value* apply_rule(const RewriteRule& rule, const ir::Op& op, const MakeOp& make,
                      const MakeConstant& make_constant);

} // namespace kiln::passes
