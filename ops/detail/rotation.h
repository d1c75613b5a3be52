// Defines Rotation, the angles of rotary embedding in kernels, and how the host splits heads into pairs.
#pragma once

#include <kiln/ops/detail/checks.h>
#include <kiln/ops/detail/erased_view.h>
#include <kiln/ops/rotary_options.h>

#include <numbers>
#include <optional>

namespace kiln::ops::detail {

// Of a tile of heads: the heads, the tokens, the pairs of a head, and its other elements.
KILN_DIM(HEADS);
KILN_DIM(TOKENS);
KILN_DIM(PAIRS);
KILN_DIM(REST);

// An option of kernels: the angles come from tables.
inline constexpr std::uint32_t rotary_tables = 1;

// Takes cos and sin, or the exponent of the second pair, and the direction (1, or -1 to rotate back) from the
// parameters at `next`.
template <class A> class Rotation {
public:
  Rotation(const OpVariant& v, const Handle*& next) {
    if (v.options & rotary_tables) {
      cos_.emplace(*next++);
      sin_.emplace(*next++);
    } else {
      exponent_.emplace(*next++);
    }
    direction_.emplace(*next++);
  }

  // The cosines and sines for a tile of positions (i64) with a last axis of extent 1.
  template <class P> auto angles(const P& position) const {
    Tile pair = expand<0>(expand<0>(arange(PAIRS)));
    if (cos_)
      return state(Tile(cos_->at(position, pair).load()),
                   Tile(sin_->at(position, pair).load() * *direction_));
    // The angle is reduced in f64, because an f32 does not hold those of distant positions.
    Tile revolutions =
        cast<double>(position) * exp2(cast<double>(pair) * *exponent_) * (0.5 / std::numbers::pi);
    Tile angle = cast<A>(revolutions - round(revolutions)) * A(2 * std::numbers::pi);
    return state(Tile(cos(angle)), Tile(sin(angle) * *direction_));
  }

private:
  std::optional<ErasedView<A, 2>> cos_, sin_;
  std::optional<Scalar<double>> exponent_;
  std::optional<Scalar<A>> direction_;
};

// The parts of heads: the first and the second elements of the pairs, and those that are not rotated.
struct RotaryParts {
  Array first, second, rest;
};
RotaryParts split_heads(const Array& x, RotaryPairs pairs, std::int64_t width);

// Checks width, theta and the tables, and returns the width.
std::int64_t check_rotary(const Checks& check, const RotaryOptions& options, std::int64_t head_size);
// Adds the arguments of Rotation.
void add_rotation(OpArguments& list, const RotaryOptions& options, std::int64_t width, DType compute,
                  double direction);
inline std::uint32_t rotation_options(const RotaryOptions& options) {
  return options.cos.given() ? rotary_tables : 0;
}

} // namespace kiln::ops::detail
