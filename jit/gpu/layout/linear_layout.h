// Defines linear layouts: which element of a tile each place on a GPU holds, as a matrix over GF(2).
//
// The elements of a tile are spread over the registers of the lanes of the warps of a block, or over offsets
// in shared memory. We call such a combination of register, lane and warp, or such an offset, a *place*. If
// all extents are powers of two, a place is a handful of bits, and so is an element (its coordinates in the
// tile). Every arrangement that hardware requires turns out to be *linear* in these bits over GF(2), the
// field of two elements, in which addition is exclusive or:
//
//     L(a ^ b) = L(a) ^ L(b)
//
// So a layout L is determined by the images of the single bits of a place, its *bases*. This follows Zhou et
// al., "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2" (arXiv 2505.23819).
//
// A worked example: a 4 x 4 tile on 4 lanes with 4 registers each, where every lane holds two half rows:
//
//              column 0     1     2     3
//     row 0         l0.r0 l0.r1 l1.r0 l1.r1        bases:  register 1 -> (0, 1)     lane 1 -> (0, 2)
//     row 1         l2.r0 l2.r1 l3.r0 l3.r1                register 2 -> (2, 0)     lane 2 -> (1, 0)
//     row 2         l0.r2 l0.r3 l1.r2 l1.r3
//     row 3         l2.r2 l2.r3 l3.r2 l3.r3        lane 3, register 3: (0,1)^(2,0)^(0,2)^(1,0) = (3, 3)
//
// Every question that a code generator has about a tile becomes linear algebra on at most 64 bits:
//   - Which lane holds an element?           Apply the inverse of the layout.
//   - How does a tile get from layout A      Apply B and then the inverse of A. If the result is the
//     to layout B?                           identity on lanes and warps, renaming registers is enough;
//                                            if it is the identity on warps, shuffles are.
//   - How wide may a load be?                Count the lowest register bits that step through memory one
//                                            element, two elements, four elements, ... at a time.
//   - Is a swizzle free of bank conflicts?   Test whether the bases of the lanes are independent modulo one
//                                            row of banks.
//   - Does the fragment of an mma fit?       Divide: is the layout (the fragment) * (something)?
//   - Which places hold copies?              Find the bits whose bases depend on those of earlier bits.
//
// The map goes from places to elements, and not the other way, because several places may hold the same
// element, while no place holds two. After a sum along rows, for example, all lanes that held a row know its
// sum: the lane bits along the row map to zero.
//
// Two things are not linear and cannot be expressed: extents that are no powers of two (a tile is padded to
// the next one, and its padding is masked) and addition with carry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::gpu {

// Names of the dimensions of layouts.
inline constexpr const char* in_register = "register";
inline constexpr const char* in_lane = "lane";
inline constexpr const char* in_warp = "warp";
inline constexpr const char* in_offset = "offset"; // in shared memory, counted in elements
std::string axis_name(int axis);                   // an output dimension: "dim0", "dim1", ...

class LinearLayout {
public:
  struct Dim {
    std::string name;
    int bits = 0;
    bool operator==(const Dim&) const = default;
  };
  // The first dimension has the least significant bits of the flattened index.
  using Dims = std::vector<Dim>;
  using Coordinates = std::vector<std::pair<std::string, std::int64_t>>;

  // The empty layout: one place that holds one element.
  LinearLayout() = default;
  // `columns[i]` is the image of bit i of the flattened input, as a flattened output.
  LinearLayout(Dims ins, Dims outs, std::vector<std::uint64_t> columns);

  // 2^bits places, of which place i holds element i.
  static LinearLayout identity(int bits, std::string_view in, std::string_view out);
  // 2^bits places that all hold the same element.
  static LinearLayout zeros(int bits, std::string_view in, std::string_view out);

  const Dims& ins() const { return ins_; }
  const Dims& outs() const { return outs_; }
  int in_bits() const { return static_cast<int>(columns_.size()); }
  int out_bits() const;
  int in_bits(std::string_view name) const;  // 0 if there is no such dimension
  int out_bits(std::string_view name) const; // 0 if there is no such dimension
  std::uint64_t column(int bit) const { return columns_[static_cast<std::size_t>(bit)]; }
  std::uint64_t column(std::string_view in, int bit) const;
  // The coordinate `out` of the image of bit `bit` of dimension `in`.
  std::int64_t basis(std::string_view in, int bit, std::string_view out) const;

  std::uint64_t apply(std::uint64_t flat_in) const;
  Coordinates apply(const Coordinates& in) const; // dimensions that `in` does not name are zero
  std::uint64_t flatten(const Coordinates& in) const;
  Coordinates unflatten_out(std::uint64_t flat_out) const;

  // The product: in dimensions that both layouts have, the bits of `b` become the more significant ones. It
  // is the tile of `a`, repeated as `b` says.
  friend LinearLayout operator*(const LinearLayout& a, const LinearLayout& b);
  // The composition: first this layout, then `after`, whose input dimensions are the output dimensions of
  // this one, in any order and at least as large.
  LinearLayout then(const LinearLayout& after) const;
  // Maps each element to a place that holds it; the layout must be surjective. Where several places hold the
  // element, it is the one whose redundant bits are zero. For an invertible layout this is the inverse.
  LinearLayout inverse() const;
  // The layout q with divisor * q == *this, if there is one.
  std::optional<LinearLayout> divided_by(const LinearLayout& divisor) const;

  // The same map with its dimensions in another order. A dimension that the layout lacks is added with no
  // bits.
  LinearLayout with_ins(const std::vector<std::string>& order) const;
  LinearLayout with_outs(const std::vector<std::string>& order) const;
  // The same map with all output dimensions flattened into one.
  LinearLayout flat_outs(std::string_view name) const;
  // The same map with the bits of one output dimension distributed over several new ones, of which the first
  // gets the least significant bits.
  LinearLayout split_out(std::string_view name, const Dims& parts) const;
  // Drops an output dimension, and with it that coordinate of every element.
  LinearLayout without_out(std::string_view name) const;
  LinearLayout renamed_out(std::string_view from, std::string_view to) const;
  // Keeps the dimensions that are named. Other inputs are held at zero, and other outputs are dropped.
  LinearLayout restricted(const std::vector<std::string>& ins, const std::vector<std::string>& outs) const;

  int rank() const;
  bool is_surjective() const { return rank() == out_bits(); }
  bool is_injective() const { return rank() == in_bits(); }
  bool is_invertible() const { return is_surjective() && is_injective(); }
  // The bits of an input dimension whose bases depend on those of earlier bits, of this and of earlier
  // dimensions. They lead to no new elements: each place with such a bit set holds a copy of what another
  // place holds.
  std::uint64_t redundant(std::string_view in) const;

  bool operator==(const LinearLayout&) const = default;
  std::string to_string() const; // the bases, one line for each input dimension

private:
  int in_start(std::string_view name) const; // its first flattened bit; -1 if there is no such dimension
  int out_start(std::string_view name) const;

  Dims ins_, outs_;
  std::vector<std::uint64_t> columns_;
};

// Linear algebra on bit vectors.

// Returns those of `vectors`, in their order, that do not depend on earlier ones: a basis of their span.
std::vector<std::uint64_t> independent(const std::vector<std::uint64_t>& vectors);
// Whether `v` lies in the span of `vectors`.
bool spans(const std::vector<std::uint64_t>& vectors, std::uint64_t v);
// Unit vectors that complete the span of `vectors` to the whole space of `bits` dimensions.
std::vector<std::uint64_t> complement(const std::vector<std::uint64_t>& vectors, int bits);
// A basis of the intersection of the spans of `a` and `b`.
std::vector<std::uint64_t> intersection(const std::vector<std::uint64_t>& a,
                                        const std::vector<std::uint64_t>& b);

} // namespace kiln::gpu
