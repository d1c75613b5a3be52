// Algebraic rewrite rules as data: "mul(x, 1) -> x", matched against tile IR.
//
// In a pattern x, y, z and a stand for any value (twice the same letter: the same value), c and d for a
// constant or a splat of one, s and t for splats; numbers, `ones` (all bits set), `true` and `false` for that
// constant in the dtype of their place. Operands of commutative operations match in either order, except that
// `0`, `1`, c ... are looked for on the right only, where the canonicaliser has put constants.
#pragma once

#include <kiln/dsl/ir/semantics.h>

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace kiln::passes {

// The dtypes for which a rule holds: those of what its first letter stands for.
enum class Holds : std::uint8_t {
  AnyDType,
  Integers,
  IntegersAndBool, // integers and bool
  Bool,
  FloatsButE5M2, // those of Exact
  AllButE5M2,    // all but f8e5m2: operations on its infinities saturate, so that not even x * 1 is x
  FloatsUpToF32, // floats that are computed in f32
};

struct RewriteRule {
  std::string_view text;
  Holds holds;
};
const std::vector<RewriteRule>& rewrite_rules();

// The cell of a constant, or of a splat of one.
std::optional<ir::Cell> constant_of(const ir::Value* v);

// Creates an operation (simplified at once, where that is possible) and returns its result.
using MakeOp = std::function<ir::Value*(ir::Opcode, std::vector<ir::Value*>, ir::Type)>;
// Creates a constant of this type: a scalar, or a splat of one.
using MakeConstant = std::function<ir::Value*(const ir::Type&, ir::Cell)>;

// What the first matching rule replaces `op` by, or null.
ir::Value* rewrite(const ir::Op& op, const MakeOp& make, const MakeConstant& make_constant);

} // namespace kiln::passes
