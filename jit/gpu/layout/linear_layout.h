// Linear layouts: where each element of a tile lives, as a matrix over the field of two elements.
//
// A tile's elements are spread over the registers of the lanes of the warps of a block, or over offsets in
// shared memory. With power-of-two extents both a place and an element are a handful of bits, and every
// arrangement that hardware asks for turns out to be *linear* in them with exclusive or as addition:
//
//     L(a ^ b) = L(a) ^ L(b)
//
// So a layout is fixed by the images of single bits, its *bases*. This follows Zhou et al., "Linear Layouts:
// Robust Code Generation of Efficient Tensor Computation Using F2" (arXiv 2505.23819).
//
// A worked example: a 4 x 4 tile on 4 lanes with 4 registers each, where every lane has half a row twice:
//
//              column 0     1     2     3
//     row 0         l0.r0 l0.r1 l1.r0 l1.r1        bases:  register 1 -> (0, 1)     lane 1 -> (0, 2)
//     row 1         l2.r0 l2.r1 l3.r0 l3.r1                register 2 -> (2, 0)     lane 2 -> (1, 0)
//     row 2         l0.r2 l0.r3 l1.r2 l1.r3
//     row 3         l2.r2 l2.r3 l3.r2 l3.r3        lane 3, register 3: (0,1)^(2,0)^(0,2)^(1,0) = (3, 3)
//
// All questions that a code generator asks become linear algebra on at most 64 bits:
//   - which lane holds an element?           the inverse
//   - how do I get from layout A to B?       inverse(A) after B: identity on lanes and warps means that only
//                                            registers move, identity on warps that shuffles do
//   - how wide may a load be?                the longest run of register bits that walk along memory
//   - is a swizzle free of bank conflicts?   the lanes' bases are independent modulo a row of banks
//   - does mma's fragment fit?               division: is the layout (fragment) x (something)?
//   - who holds the same element twice?      bits whose images depend on those of earlier bits
//
// The map goes from places to elements and not back because places may share an element (a row sum is known
// to all lanes of the row: its lane bits map to zero), while no place holds two elements.
//
// What is not linear is not expressible: extents other than powers of two (a tile is padded to them, and its
// padding is masked) and additions with carry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::gpu {

// Names of the sides of a layout.
inline constexpr const char* in_register = "register";
inline constexpr const char* in_lane = "lane";
inline constexpr const char* in_warp = "warp";
inline constexpr const char* in_offset = "offset"; // of an element in shared memory
std::string axis_name(int axis);                   // "dim0", "dim1", ...

class LinearLayout {
public:
  struct Dim {
    std::string name;
    int bits = 0;
    bool operator==(const Dim&) const = default;
  };
  using Dims = std::vector<Dim>; // the first has the least significant bits of the flattened index
  using Coordinates = std::vector<std::pair<std::string, std::int64_t>>;

  // The layout of nothing: one place, one element.
  LinearLayout() = default;
  // `columns[i]` is the image of bit i of the flattened input, as a flattened output.
  LinearLayout(Dims ins, Dims outs, std::vector<std::uint64_t> columns);

  // 2^bits places side by side: i -> i.
  static LinearLayout identity(int bits, std::string_view in, std::string_view out);
  // 2^bits places of one element.
  static LinearLayout zeros(int bits, std::string_view in, std::string_view out);

  const Dims& ins() const { return ins_; }
  const Dims& outs() const { return outs_; }
  int in_bits() const { return static_cast<int>(columns_.size()); }
  int out_bits() const;
  int in_bits(std::string_view name) const;  // 0 if there is no such side
  int out_bits(std::string_view name) const; // 0 if there is no such side
  std::uint64_t column(int bit) const { return columns_[static_cast<std::size_t>(bit)]; }
  std::uint64_t column(std::string_view in, int bit) const;
  // One coordinate of the image of a bit.
  std::int64_t basis(std::string_view in, int bit, std::string_view out) const;

  std::uint64_t apply(std::uint64_t flat_in) const;
  Coordinates apply(const Coordinates& in) const; // sides that are not named are zero
  std::uint64_t flatten(const Coordinates& in) const;
  Coordinates unflatten_out(std::uint64_t flat_out) const;

  // (a * b): b's bits become the more significant ones of sides that both have. The tile of `a`, repeated as
  // `b` says.
  friend LinearLayout operator*(const LinearLayout& a, const LinearLayout& b);
  // First this, then `after`, whose input sides are this one's output sides (in any order, at least as
  // large).
  LinearLayout then(const LinearLayout& after) const;
  // The other way round: an input that has the given output. Needs a surjective layout; where several inputs
  // do, the one without the more significant redundant bits is taken. For an invertible layout, its inverse.
  LinearLayout inverse() const;
  // this = divisor * quotient, if there is such a quotient.
  std::optional<LinearLayout> divided_by(const LinearLayout& divisor) const;

  // The same map with its sides in another order; a side that is not there is added with no bits.
  LinearLayout with_ins(const std::vector<std::string>& order) const;
  LinearLayout with_outs(const std::vector<std::string>& order) const;
  // All outputs as one side.
  LinearLayout flat_outs(std::string_view name) const;
  // One side's bits seen as those of several new ones, least significant first.
  LinearLayout split_out(std::string_view name, const Dims& parts) const;
  // Without an output side: its coordinate is forgotten.
  LinearLayout without_out(std::string_view name) const;
  LinearLayout renamed_out(std::string_view from, std::string_view to) const;
  // Only some sides: others are held at zero (inputs) or forgotten (outputs).
  LinearLayout restricted(const std::vector<std::string>& ins, const std::vector<std::string>& outs) const;

  int rank() const;
  bool is_surjective() const { return rank() == out_bits(); }
  bool is_injective() const { return rank() == in_bits(); }
  bool is_invertible() const { return is_surjective() && is_injective(); }
  // The bits of an input side that reach nothing which earlier bits do not: places that repeat.
  std::uint64_t redundant(std::string_view in) const;

  bool operator==(const LinearLayout&) const = default;
  std::string to_string() const; // bases, a line for each input side

private:
  int in_start(std::string_view name) const; // first flattened bit; -1 if there is no such side
  int out_start(std::string_view name) const;

  Dims ins_, outs_;
  std::vector<std::uint64_t> columns_;
};

// Linear algebra on bit vectors.
// A subset of `vectors` that is a basis of their span, in their order.
std::vector<std::uint64_t> independent(const std::vector<std::uint64_t>& vectors);
// Whether `v` lies in the span.
bool spans(const std::vector<std::uint64_t>& vectors, std::uint64_t v);
// Unit vectors of the `bits`-dimensional space that complete the span to all of it.
std::vector<std::uint64_t> complement(const std::vector<std::uint64_t>& vectors, int bits);
// A basis of what two spans have in common.
std::vector<std::uint64_t> intersection(const std::vector<std::uint64_t>& a,
                                        const std::vector<std::uint64_t>& b);

} // namespace kiln::gpu
